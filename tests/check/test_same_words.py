"""What is wrong with a label, ``check`` and the loader say in the same sentence: the checks are written once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from monai.transforms import LoadImaged

from dcl_monai.transforms import LoadCandidatesd
from dcl_monai.utils import DataError

from .conftest import CLASSES, SHAPE, blocks, inspect_item

MOVED = np.eye(4)
MOVED[0, 3] = 2.0
BAD = {
    "value without a meaning": (np.where(blocks() == 1, 7, blocks()).astype(np.int16), None),
    "many values": (np.arange(np.prod(SHAPE)).reshape(SHAPE).astype(np.int16), None),
    "fractions": (blocks() * np.float32(0.5), None),
    "not a number": (np.where(blocks() == 1, np.nan, 0).astype(np.float32), None),
    "shape": (np.zeros((8, 7, 4), np.uint8), None),
    "place": (blocks(), MOVED),
    "channels": (np.zeros((*SHAPE, 2), np.uint8), None),
    "frames": (np.zeros((*SHAPE, 2, 3), np.uint8), None),
}


def said_by_check(item) -> list[str]:
    record = inspect_item(item)
    return [problem.message for problem in (*record.files.problems, *record.problems)]


def said_by_loader(item) -> str:
    load = LoadCandidatesd("label", len(CLASSES), classes=CLASSES)
    loaded = LoadImaged("image", ensure_channel_first=True)(item)
    with pytest.raises(DataError) as error:
        load(loaded)
    return str(error.value)


@pytest.mark.parametrize("kind", list(BAD))
def test_label(make_item, write_nifti, kind):
    array, affine = BAD[kind]
    item = make_item("a") | {"label": write_nifti("bad.nii.gz", array, affine)}
    assert said_by_check(item) == [said_by_loader(item)]
    assert said_by_check(item)[0].startswith(f"{item['label']}: ")


@pytest.mark.parametrize("content", [b"", b"text", None])
def test_unreadable(make_item, content):
    item = make_item("a")
    Path(item["label"]).unlink()
    if content is not None:
        Path(item["label"]).write_bytes(content)
    assert said_by_check(item) == [said_by_loader(item)]


@pytest.mark.parametrize("raters", [2, 3])
def test_contradiction(make_item, raters):
    item = make_item("a", blocks())
    others = [make_item(f"b{k}", np.where(blocks() == 1, 2, blocks())) for k in range(raters - 1)]
    keys = ("label", "values", "unlabelled", "annotated")
    item["further_labels"] = [{key: other[key] for key in keys} for other in others]
    assert said_by_check(item) == [said_by_loader(item)]
    assert f"in 9 voxel(s): {item['label']} says RV; {others[0]['label']} says LV" in said_by_loader(item)


def test_large_values(make_item):
    """Both read whole numbers above 2**24, where float32 knows only every second one."""
    label = np.where(blocks() == 1, 2**24 + 1, 0).astype(np.int32)
    good = make_item("a", label, values={0: [0], 2**24 + 1: [1]}, annotated=[1])
    assert said_by_check(good) == []
    bad = good | {"values": {0: [0], 2**24: [1]}}
    assert said_by_check(bad) == [said_by_loader(bad)]
