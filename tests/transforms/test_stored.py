"""Labels as a MONAI Label server stores them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest
from helpers import voxel_sets
from monai.transforms import Compose, LoadImaged

from dcl_monai.transforms import LoadCandidatesd, StoredAnnotationd, stored_annotation
from dcl_monai.transforms.stored import check_annotation
from dcl_monai.utils import DataError

CLASSES = ["background", "RV", "MYO", "LV"]


@pytest.fixture
def store(tmp_path: Path) -> Callable[..., Path]:
    """Store a label as the server does, and return its path."""

    def save(values: list[float], note: dict[str, Any] | None = None, name: str = "heart") -> Path:
        path = tmp_path / "labels" / "final" / f"{name}.nii.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        array = np.array(values, dtype=np.float32).reshape(1, -1, 1)
        for file in (path, tmp_path / path.name):
            nib.save(nib.Nifti1Image(array, np.eye(4)), file)
        if note is not None:
            entry = {"image": {"ext": ".nii.gz"}, "labels": {"final": {"info": note, "ext": ".nii.gz"}}}
            other = {"image": {"ext": ".nii.gz"}, "labels": {}}
            objects = {"another": other, name: entry}
            (tmp_path / "datastore_v2.json").write_text(json.dumps({"objects": objects}))
        return path

    return save


def info(*segments: tuple[str, int]) -> dict[str, Any]:
    return {"label_info": [{"name": name, "idx": idx} for name, idx in segments]}


@pytest.mark.parametrize(
    ("values", "note", "meaning", "annotated"),
    [
        # one segment of Slicer has the value 1, whichever structure it is
        ([0, 1, 1, 0], info(("lv", 1)), {0: 0, 1: 3}, [3]),
        ([0, 1, 2, 0], info(("lv", 1), ("rv", 2)), {0: 0, 1: 3, 2: 1}, [1, 3]),
        # Slicer lists an empty segment for every structure: it was not drawn
        ([0, 1, 1, 0], info(("rv", 1), ("myo", 2), ("lv", 3)), {0: 0, 1: 1, 2: 2, 3: 3}, [1]),
        ([0, 0, 0, 0], info(("rv", 1), ("myo", 2), ("lv", 3)), {0: 0, 1: 1, 2: 2, 3: 3}, []),
        # `idx` of a script, which keeps the model's values
        ([0, 3, 3, 0], info(("LV", 3)), {0: 0, 3: 3}, [3]),
        # Slicer counts its background segment in `idx`, but not in the file
        ([0, 1, 3, 2], info(("rv", 2), ("myo", 3), ("lv", 4)), {0: 0, 1: 1, 2: 2, 3: 3}, [1, 2, 3]),
        ([0, 1, 3, 2], info(("background", 0), ("rv", 1), ("myo", 2), ("lv", 3)), {0: 0, 1: 1, 2: 2, 3: 3}, [1, 2, 3]),
        # a client that says it: absent, and hidden though drawn
        ([0, 1, 1, 0], info(("rv", 1)) | {"annotated": ["RV", "LV"]}, {0: 0, 1: 1}, [1, 3]),
        ([0, 1, 2, 0], {"annotated": ["rv"]}, {0: 0, 1: 1, 2: 2, 3: 3}, [1]),
        # nothing said: class indices, and what is in the file
        ([0, 0, 2, 0], {}, {0: 0, 1: 1, 2: 2, 3: 3}, [2]),
        ([0, 0, 2, 0], None, {0: 0, 1: 1, 2: 2, 3: 3}, [2]),
        # by the names of segments: absent, a union
        ([0, 1, 1, 0], info(("lv", 1), ("RV (absent)", 2)), {0: 0, 1: 3, 2: 1}, [1, 3]),
        ([0, 2, 2, 0], info(("rv (Absent)", 1), ("myo", 2), ("lv", 3)), {0: 0, 1: 1, 2: 2, 3: 3}, [1, 2]),
        ([0, 1, 1, 0], info(("rv + MYO+lv (union)", 1)), {0: 0, 1: (1, 2, 3)}, [(1, 2, 3)]),
        ([0, 1, 2, 0], info(("RV", 1), ("rv+myo+lv", 2)), {0: 0, 1: 1, 2: (2, 3)}, [1, (2, 3)]),
        # of a script
        ([0, 1, 1], info(("heart", 1)) | {"unions": {"Heart": ["RV", "MYO", "LV"]}}, {0: 0, 1: (1, 2, 3)}, [(1, 2, 3)]),
        ([0, 0, 0], info() | {"annotated": ["RV+MYO", "LV"]}, {0: 0}, [(1, 2), 3]),
    ],
)
def test_meaning(store, values, note, meaning, annotated):
    said = stored_annotation(store(values, note), CLASSES)
    assert said == {"values": meaning, "annotated": annotated}


@pytest.mark.parametrize(
    ("values", "note", "message"),
    [
        ([0, 1], info(("tumour", 1)), "'tumour'.*knows RV, MYO, LV"),
        ([0, 1], info(("rv", 1), ("RV", 2)), "twice"),
        ([0, 2], info(("rv", 2), ("myo", 3)), "Delete the background"),
        ([0, 5], info(("rv", 1)), r"value\(s\) \[5\].*1: RV"),
        ([0, 7], None, r"value\(s\) \[7\]"),
        ([0, 0.5], None, "whole numbers"),
        ([0, 1], {"label_info": "rv"}, "label_info is damaged"),
        ([0, 1], {"label_info": [{"idx": 1}]}, "label_info is damaged"),
        ([0, 1], {"annotated": "rv"}, "list of names"),
        ([0, 1], {"annotated": ["background"]}, "not a structure that is drawn"),
        ([0, 1], info(("rv (absent)", 1)), "is .absent. has voxels"),
        ([0, 1], info(("heart (union)", 1)), r"'heart'.*'A\+B \(union\)'"),
        ([0, 1], info(("rv (union)", 1)), "is a single structure"),
        ([0, 1], info(("rv", 1), ("rv (absent)", 2)), "twice"),
        ([0, 1], info(("rv", 1), ("background (absent)", 2)), "never absent"),
        ([0, 1, 2], info(("rv (scribble)", 1), ("lv", 2)), "has strokes, and 'lv' as a whole"),
        ([0, 1], info(("rv (scribble)", 1)) | {"annotated": ["RV"]}, "cannot be given"),
        ([0, 1], info(("heart", 1)) | {"unions": {"heart": ["RV", "spleen"]}}, "RV.spleen"),
        ([0, 1], info(("heart", 1)) | {"unions": {"heart": "RV"}}, "lists of names are needed"),
    ],
)
def test_refuses(store, values, note, message):
    path = store(values, note)
    with pytest.raises(DataError, match=message) as error:
        stored_annotation(path, CLASSES)
    assert str(path) in str(error.value)


def test_damaged_datastore(store, tmp_path):
    path = store([0, 1], {})
    for text in ("{", "[]", '{"objects": {"heart": 3}}'):
        (tmp_path / "datastore_v2.json").write_text(text)
        with pytest.raises(DataError, match=r"datastore_v2\.json: is damaged"):
            stored_annotation(path, CLASSES)


def test_damaged_label(store):
    path = store([0, 1], {})
    path.write_bytes(b"nothing")
    with pytest.raises(DataError, match="cannot be read"):
        stored_annotation(path, CLASSES)


def sets_of(label, image) -> list[tuple[int, ...]]:
    """Candidate sets of an item as the server gives it, voxel by voxel."""
    load = LoadImaged("image", ensure_channel_first=True)
    chain = Compose([StoredAnnotationd("label", CLASSES), load, LoadCandidatesd("label", len(CLASSES))])
    item = chain({"image": str(image), "label": str(label)})
    assert item["subject"] == image.name
    return voxel_sets(item["label"])


ALL = (0, 1, 2, 3)


@pytest.mark.parametrize(
    ("note", "sets"),
    [
        # the left ventricle alone, stored as 1: not the right ventricle, and nothing is background
        (info(("lv", 1)), [(0, 1, 2), (3,), (3,), (0, 1, 2)]),
        # the RV within the whole heart; what is left of the heart is MYO or LV
        (info(("RV", 1), ("RV+MYO+LV (union)", 2)), [(0,), (1,), (2, 3), (0,)]),
        (info(("RV", 1), ("MYO", 2), ("LV (absent)", 3)), [(0,), (1,), (2,), (0,)]),
        (info(("RV (scribble)", 1), ("background (scribble)", 2)), [ALL, (1,), (0,), ALL]),
        (info(("RV", 1), ("background", 2)) | {"scribbles": True}, [ALL, (1,), (0,), ALL]),
        # segments that Slicer lists and nobody used
        (info(("LV (scribble)", 1), ("MYO (scribble)", 2), ("RV", 3)), [ALL, (3,), (2,), ALL]),
        (info(("RV (scribble)", 1), ("MYO+LV (scribble)", 2)), [ALL, (1,), (2, 3), ALL]),
    ],
)
def test_candidate_sets(store, tmp_path, note, sets):
    values = [0, 1, 2, 0] if len(note["label_info"]) > 1 else [0, 1, 1, 0]
    assert sets_of(store(values, note), tmp_path / "heart.nii.gz") == sets


class TestCheckAnnotation:
    """A label is looked at before it is stored, with the words of a training."""

    def test_right(self, store, tmp_path):
        check_annotation(store([0, 1, 1]), info(("lv", 1)), CLASSES, tmp_path / "heart.nii.gz")

    @pytest.mark.parametrize(
        ("values", "note", "words"),
        [
            ([0, 7], {}, "holds the value"),
            ([0, 0.5], {}, "whole numbers"),
            ([0, 1], info(("spleen", 1)), "the model knows RV, MYO, LV"),
            ([0, 1], {"annotated": "RV"}, "a list of names is needed"),
            ([0, 1], {"label_info": [1]}, "damaged"),
        ],
    )
    def test_wrong(self, store, tmp_path, values, note, words):
        with pytest.raises(DataError, match=words):
            check_annotation(store(values), note, CLASSES, tmp_path / "heart.nii.gz")

    def test_no_image_at_all(self, store, tmp_path):
        path = store([0, 1])
        path.write_bytes(b"garbage")
        with pytest.raises(DataError, match="cannot be read"):
            check_annotation(path, {}, CLASSES, tmp_path / "heart.nii.gz")

    def test_another_image(self, store, tmp_path):
        path = store([0, 1, 2], name="other")
        store([0, 1])
        with pytest.raises(DataError, match="differs from"):
            check_annotation(path, {}, CLASSES, tmp_path / "heart.nii.gz")
