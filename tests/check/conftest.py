"""A small clean datalist, to be spoilt by the tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dcl_monai.check import Problem, find_problems, inspect_datalist
from dcl_monai.check.reading import describe, read_files
from dcl_monai.check.records import CaseRecord
from dcl_monai.datalist import Item

CLASSES = ["background", "RV", "LV"]
SHAPE = (8, 7, 3)


def blocks(seed: int = 0) -> np.ndarray:
    """A label map in which every class is seen."""
    label = np.zeros(SHAPE, np.uint8)
    label[1:4, 2:5, 1] = 1
    label[5:7, 2 : 5 + seed % 2, 1] = 2
    return label


def inspect_item(item: Item, split: str = "training") -> CaseRecord:
    """Read the files of one item."""
    return describe(item, read_files((item, len(CLASSES))), CLASSES, split)


@pytest.fixture
def make_item(write_nifti: Callable[..., str]) -> Callable[..., dict[str, Any]]:
    """Write an image of its own pixels and its label, and return the item."""

    def make(name: str, label: np.ndarray | None = None, dataset: str = "north", **entries: Any) -> dict[str, Any]:
        number = sum(map(ord, dataset + name))
        pixels = np.random.default_rng([number, len(name)]).normal(size=SHAPE).astype(np.float32)
        pixels[0, 0, 0] = number
        return {
            "image": write_nifti(f"{dataset}/{name}.nii.gz", pixels),
            "label": write_nifti(f"{dataset}/{name}_gt.nii.gz", blocks(number) if label is None else label),
            "subject": name,
            "dataset": dataset,
            "case": name,
            "values": {0: [0], 1: [1], 2: [2]},
            "unlabelled": [],
            "annotated": [[0], [1], [2]],
        } | entries

    return make


@pytest.fixture
def datalist(make_item: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    """Four training subjects, one for validation, one for test; nothing is wrong with them."""
    return {
        "classes": CLASSES,
        "unions": {"heart": [1, 2]},
        "training": [make_item(f"train{i}") for i in range(4)],
        "validation": [make_item("val")],
        "test": [make_item("test")],
    }


@pytest.fixture
def problems_of() -> Callable[..., list[Problem]]:
    """All problems of a datalist, or those of one severity."""

    def find(datalist: dict[str, Any], severity: str | None = None) -> list[Problem]:
        found = find_problems(datalist, inspect_datalist(datalist, progress=False))
        assert not any("\n" in problem.message for problem in found)
        return [problem for problem in found if severity in (None, problem.severity)]

    return find


@pytest.fixture
def sole(problems_of: Callable[..., list[Problem]]) -> Callable[..., str]:
    """The message of the only problem of a datalist, of the severity and kind given."""

    def find(datalist: dict[str, Any], severity: str, kind: str) -> str:
        found = problems_of(datalist)
        assert [(problem.severity, problem.kind) for problem in found] == [(severity, kind)], found
        return found[0].message

    return find
