"""A plan as an overlay for a bundle, and as a table for people."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from dcl_monai import __version__
from dcl_monai.check.summary import ranges
from dcl_monai.transforms import Intensity
from dcl_monai.utils import DataError

from .fingerprint import Fingerprint
from .planner import GB, Plan, as_size
from .rules import ANISOTROPY

BUNDLES = {2: "bundles/acdc", 3: "bundles/mmwhs"}
"""Bundle that a plan is merged over, by its dimensions; bundles/mscmr is one of slices, too."""

FLAT = 90
"""Letters of an entry from which on it takes several lines."""


def make_overlay(plan: Plan, datalist_hash: str) -> dict[str, Any]:
    """
    The overlay of a plan, to be merged over the ``train.json`` of :data:`BUNDLES`.

    Args:
        plan: the plan.
        datalist_hash: hash of the data that it was made from.
    """
    free = [-1] * (3 - plan.dims)
    overlay: dict[str, Any] = {
        "+imports": ["$from dcl_monai.planning import check_plan"],
        "+initialize": ["$check_plan(@plan, @spatial_dims)"],
        "plan": {
            "made_by": f"dcl-monai {__version__}",
            "datalist": datalist_hash[:12],
            "spatial_dims": plan.dims,
            "bundle": BUNDLES[plan.dims],
            "memory_gb": plan.budget / GB,
            "device": plan.device,
        },
        "pixdim": [*plan.spacing[: plan.dims], *free],
        "spatial_size": [*plan.topology.patch_size, *free],
        "intensity": plan.intensity,
        "batch_size": plan.batch_size,
        "bank_size": plan.bank_size,
        "network_def": {
            "_target_": "dcl_monai.networks.DCLNet",
            "compnet": {
                "_target_": "dcl_monai.networks.CompNet",
                **plan.network,
                "num_classes": "@num_classes",
                "image_channels": "$len(@channels)",
                "conditional": "@conditional",
            },
        },
    }
    axis = coarse_axis(plan)
    if axis is not None:  # out of the plane, a turn by voxels would shear what is in it
        angles = [0.2 if k == axis else 0.0 for k in range(3)]
        overlay["rotate_range"] = angles
    return overlay


def coarse_axis(plan: Plan) -> int | None:
    """The axis of a volume whose voxels are much longer than the others, if there is one."""
    worst = int(np.argmax(plan.spacing))
    coarse = plan.spacing[worst] > ANISOTROPY * max(np.delete(plan.spacing, worst))
    return worst if plan.dims == 3 and coarse else None


def check_plan(plan: Mapping[str, Any], spatial_dims: int) -> None:
    """
    Refuse a plan of volumes in a bundle of slices, and the reverse; every planned overlay calls it first.

    Args:
        plan: the entry ``plan`` of the overlay.
        spatial_dims: that of the bundle.
    """
    if plan["spatial_dims"] != spatial_dims:
        raise DataError(
            f"this plan is {plan['spatial_dims']}D, but the bundle is {spatial_dims}D: merge it over "
            f"{plan['bundle']}/train.json, or plan again with --dims {spatial_dims}."
        )


def as_json(overlay: Mapping[str, Any]) -> str:
    """An overlay as JSON to be read: one line per setting, lists of numbers in one piece."""

    def write(value: Any, indent: str) -> str:
        inner = indent + "    "
        if isinstance(value, Mapping) and len(json.dumps(value)) >= FLAT:
            rows = [f"{inner}{json.dumps(key)}: {write(entry, inner)}" for key, entry in value.items()]
            return "{\n" + ",\n".join(rows) + f"\n{indent}}}"
        return json.dumps(value, ensure_ascii=False)

    return write(overlay, "") + "\n"


def epoch_steps(plan: Plan, fingerprint: Fingerprint) -> int:
    """About how many steps an epoch has, which sees all slices or volumes once."""
    return len(fingerprint.shapes) * (plan.median_shape[2] if plan.dims == 2 else 1) // plan.batch_size


def as_table(plan: Plan, fingerprint: Fingerprint, name: str, bundle: str | None = None) -> str:
    """
    A plan as a table in plain text: what was found, what was decided, and why.

    Args:
        plan: the plan.
        fingerprint: of the data.
        name: the file that describes the data.
        bundle: bundle that it is for; default: that of the repository which its overlay suits.
    """
    topology, dims = plan.topology, plan.dims
    spacing, shape = np.median(fingerprint.spacings, axis=0), np.median(fingerprint.shapes, axis=0)
    steps = epoch_steps(plan, fingerprint)
    rows = {
        "data": f"{len(fingerprint.shapes)} training images, {len(fingerprint.classes)} classes",
        "  voxel size": f"{ranges(fingerprint.spacings.tolist(), '{:.4g}')} mm, median {as_size(spacing)}",
        "  image size": f"{ranges(fingerprint.shapes.tolist(), '{:.4g}')}, median {as_size(shape)}",
    }
    several = len(fingerprint.channels) > 1
    for k, channel in enumerate(fingerprint.channels if fingerprint.foreground.size else ()):
        found = {key: f"{value:.4g}" for key, value in fingerprint.statistics(k).items()}
        rows["  grey values" + f", {channel}" * several] = (
            f"mean {found['mean']}, std {found['std']}, 0.5% {found['percentile_00_5']}, "
            f"99.5% {found['percentile_99_5']} where a structure is annotated"
        )
    usual = BUNDLES[dims] + (" (or bundles/mscmr)" if dims == 2 else "")
    rows["network"] = f"{dims}D, for {bundle or usual}"
    decided = {
        "grid": f"{as_size(plan.spacing[:dims])} mm" + (" in plane, slices as they are" if dims == 2 else ""),
        "median size on it": as_size(plan.median_shape),
        "spatial_size": as_size(topology.patch_size) + (" of every slice" if dims == 2 else " per patch"),
        "intensity": "; ".join(map(_scaled, plan.intensity))
        if isinstance(plan.intensity, list)
        else _scaled(plan.intensity),
        "stages": f"{len(topology.strides)}, features {' '.join(map(str, plan.network['filters']))}",
        "strides": "  ".join(map(_tight, topology.strides)),
        "kernels": "  ".join(map(_tight, topology.kernels)),
        "deep supervision": f"{plan.network['deep_supr_num'] + 1} heads",
        "conditions": f"{plan.bank_size} per class",
        "batch_size": f"{plan.batch_size}, {plan.batch_reason}",
        "steps": f"about {steps} per epoch" + ("" if dims == 2 else ", if a patch holds a whole volume; else more"),
        "memory": f"{plan.memory / GB:.2f} of {plan.budget / GB:g} GB on {plan.device}, estimated for stage 2"
        + (" in mixed precision" if plan.device == "cuda" else ""),
    }
    rows |= {f"  {key}": value for key, value in decided.items()}
    if plan.cut:
        rows["note"] = (
            f"annotated voxels of {plan.cut} training image(s) lie outside of `spatial_size`: give more memory"
        )
    if coarse_axis(plan) is not None:
        rows["note"] = "coarse axis: random turns stay in the plane of the finer ones"
    width = max(map(len, rows)) + 2
    return f"plan for {name}\n" + "".join(f"{key:<{width}}{value}\n" for key, value in rows.items())


def _scaled(intensity: Intensity | None) -> str:
    if intensity is None:
        return "each image to mean 0 and variance 1"
    return "CT: clipped to {clip}, mean {mean:.4g}, std {std:.4g} of the data set".format(**intensity)


def _tight(numbers: tuple[int, ...]) -> str:
    return "x".join(map(str, numbers))
