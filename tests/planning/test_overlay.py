"""Overlays and their tables."""

from __future__ import annotations

import json

import numpy as np
import pytest

from dcl_monai.planning import Fingerprint, Plan, as_json, as_table, check_plan, make_overlay
from dcl_monai.planning.rules import pooling
from dcl_monai.utils import DataError


def plan(dims: int, spacing: tuple[float, ...], shape: tuple[int, ...], **more: object) -> Plan:
    content = {"dims": dims, "spacing": spacing, "median_shape": shape, "batch_size": 4, "bank_size": 8}
    content |= {"topology": pooling(spacing[:dims], shape[:dims]), "intensity": None, "memory": 3_000_000_000}
    content |= {"budget": 4_000_000_000, "device": "cpu", "batch_reason": "limited by memory"}
    return Plan(**content | more)  # type: ignore[arg-type]


VOLUMES, STACKS = plan(3, (1.0, 1.0, 1.0), (40, 48, 40)), plan(2, (1.5, 1.5, 10.0), (60, 64, 9))


def test_volumes():
    overlay = make_overlay(VOLUMES, "0123456789abcdef")
    assert overlay["pixdim"] == [1.0, 1.0, 1.0]
    assert overlay["spatial_size"] == [40, 48, 40]
    assert overlay["plan"]["bundle"] == "bundles/mmwhs"
    assert overlay["plan"]["datalist"] == "0123456789ab"
    assert "rotate_range" not in overlay


def test_stacks_keep_their_slices():
    overlay = make_overlay(STACKS, "")
    assert overlay["pixdim"] == [1.5, 1.5, -1]
    assert overlay["spatial_size"] == [64, 64, -1]
    assert overlay["plan"]["bundle"] == "bundles/acdc"
    assert overlay["network_def"]["compnet"]["spatial_dims"] == 2


def test_coarse_axis_turns_in_its_plane():
    overlay = make_overlay(plan(3, (1.0, 1.0, 5.0), (64, 64, 16)), "")
    assert overlay["rotate_range"] == [0.0, 0.0, 0.2]
    assert overlay["network_def"]["compnet"]["divisor"] == [16, 16, 4]


@pytest.mark.parametrize("of", [VOLUMES, STACKS])
def test_json(of):
    overlay = make_overlay(of, "")
    text = as_json(overlay)
    assert json.loads(text) == overlay
    assert max(map(len, text.splitlines())) < 250
    assert '    "batch_size": 4,\n' in text


def test_check_plan():
    entry = make_overlay(VOLUMES, "")["plan"]
    check_plan(entry, 3)
    with pytest.raises(DataError, match=r"merge it over bundles/mmwhs/train.json, or plan again with --dims 2"):
        check_plan(entry, 2)


def test_table():
    fingerprint = Fingerprint(
        ("background", "RV"),
        np.array([[60, 64, 8], [62, 64, 10]]),
        np.array([[1.5, 1.5, 10.0], [1.5, 1.4, 10.0]]),
        np.zeros((2, 3)),
        np.zeros((2, 1)),
        np.arange(101.0)[None],
    )
    text = as_table(plan(2, (1.5, 1.5, 10.0), (60, 64, 9), cut=3), fingerprint, "my.yaml")
    parts = ["my.yaml", "60-62 x 64 x 8-10", "1.5 x 1.4-1.5 x 10 mm", "mean 50,", "64 x 64 of every slice"]
    parts += ["4, limited by memory", "3.00 of 4 GB on cpu", "annotated voxels of 3 training image(s)"]
    assert all(part in text for part in parts), text
    ct = plan(3, (1.0, 1.0, 1.0), (40, 48, 40), intensity={"clip": [-5, 5], "mean": 0.5, "std": 2})
    assert "clipped to [-5, 5], mean 0.5, std 2" in as_table(ct, fingerprint, "my.yaml")
