"""Every form of annotation against a reference that looks at one voxel at a time, in random trials."""

from __future__ import annotations

from itertools import combinations, product

import nibabel as nib
import numpy as np
import pytest
import torch
from monai.data import MetaTensor

from dcl_monai.candidates import agreed, candidate_sets, from_bits, to_bits
from dcl_monai.datalist import load_datalist
from dcl_monai.transforms import LoadCandidatesd
from dcl_monai.utils import DataError

CLASSES = ["background", "RV", "MYO", "LV"]
SHAPE = (5, 4, 3)
SPACING = (1.0, 1.5, 4.0)
AFFINE = np.diag([*SPACING, 1.0])
EVERYTHING = frozenset(range(4))
VOXELS = list(product(*map(range, SHAPE)))


def sets_of(root, dataset: dict, *others: dict, classes=CLASSES, unions=None) -> dict[tuple[int, ...], frozenset[int]]:
    """Candidate set of every voxel of the only image, by the way of a datalist file."""
    save(root, "images/s1.nii", np.zeros(SHAPE))
    named = {
        f"d{k}": {"images": "images/{subject}.nii", "split": "training"} | d for k, d in enumerate((dataset, *others))
    }
    named = {name: {k: v for k, v in entry.items() if v is not None} for name, entry in named.items()}
    (item,) = load_datalist({"classes": classes, "unions": unions or {}, "datasets": named}, root)["training"]
    loaded = {**item, "image": MetaTensor(torch.zeros(1, *SHAPE), affine=AFFINE)}
    label = LoadCandidatesd("label", len(classes), classes=classes)(loaded)["label"]
    table = candidate_sets(label)
    return {voxel: frozenset(from_bits(table[int(label[(0, *voxel)])])) for voxel in VOXELS}


def save(root, name: str, array: np.ndarray) -> str:
    (root / name).parent.mkdir(exist_ok=True)
    nib.save(nib.Nifti1Image(array.astype(np.uint8), AFFINE), root / name)
    return name


def answers(statements: list[frozenset[int]]) -> frozenset[int]:
    """What the largest groups of statements say that fit together: every group is tried."""
    fitting = []
    for size in range(1, len(statements) + 1):
        for group in combinations(range(len(statements)), size):
            common = frozenset.intersection(*(statements[k] for k in group))
            if common:
                fitting.append((set(group), common))
    largest = [common for group, common in fitting if not any(group < other for other, _ in fitting)]
    return frozenset.union(*largest)


def test_agreed():
    rng = np.random.default_rng(0)
    for _ in range(200):
        statements = [frozenset(np.flatnonzero(rng.random(4) < 0.5).tolist()) or EVERYTHING for _ in range(5)]
        bits = [to_bits(members) for members in statements]
        common = frozenset.intersection(*statements)
        assert frozenset(from_bits(agreed(bits, "either"))) == answers(statements)
        assert frozenset(from_bits(agreed(bits))) == common
        if common:
            assert agreed(bits, "first") == agreed(bits)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("overlap", ["error", "first", "either"])
def test_masks(tmp_path, seed, overlap):
    """Any of them may be missing; they overlap at random, or not at all."""
    rng = np.random.default_rng(seed)
    names = [name for name in ("LV", "RV", "MYO") if rng.random() < 0.7] or ["RV"]
    masks = {name: rng.random(SHAPE) < 0.4 for name in names}
    if seed % 2:
        owner = rng.integers(0, 4, SHAPE)
        masks = {name: owner == k for k, name in enumerate(names)}
    for name, mask in masks.items():
        save(tmp_path, f"{name}.nii", mask * rng.choice([1, 255]))
    for name in {"RV", "MYO", "LV"} - {*names}:
        save(tmp_path, f"of another image/{name}.nii", np.zeros(SHAPE))
    entry = {"masks": {name: f"{name}.nii" for name in names}, "overlap": None if overlap == "error" else overlap}

    def expected(voxel):
        inside = [name for name in names if masks[name][voxel]]
        rest = EVERYTHING - {CLASSES.index(name) for name in names}
        kept = inside[:1] if overlap == "first" else inside
        return frozenset(CLASSES.index(name) for name in kept) or rest

    double = sum(sum(masks[name][voxel] for name in names) > 1 for voxel in VOXELS)
    if overlap == "error" and double:
        with pytest.raises(DataError, match=r"\.nii: overlaps with .*\.nii in \d+ voxel\(s\).*`overlap: first`"):
            sets_of(tmp_path, entry)
    else:
        assert sets_of(tmp_path, entry) == {voxel: expected(voxel) for voxel in VOXELS}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("slices", ["drawn", [1, 3], [2]])
def test_annotated_slices(tmp_path, seed, slices):
    """The third axis is that of the slices, as they are thickest along it."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 4, SHAPE) * (rng.random(SHAPE[2]) < 0.5)
    save(tmp_path, "labels/s1.nii", label)
    annotated = [["RV"], ["RV", "LV"], None][seed % 3]
    values = dict(enumerate(CLASSES))
    found = sets_of(
        tmp_path,
        {"labels": "labels/{subject}.nii", "values": values, "annotated": annotated, "annotated_slices": slices},
    )
    drawn = {CLASSES.index(name) for name in annotated or CLASSES}
    for voxel in VOXELS:
        looked_at = label[..., voxel[2]].any() if slices == "drawn" else voxel[2] + 1 in slices
        value = int(label[voxel])
        told = frozenset({value}) if value in drawn else EVERYTHING - drawn
        assert found[voxel] == (told if looked_at else EVERYTHING)


@pytest.mark.parametrize("seed", range(4))
def test_disagreement(tmp_path, seed):
    """Two raters, one with a label map of some classes, one with masks."""
    rng = np.random.default_rng(seed)
    label, rv, lv = rng.integers(0, 4, SHAPE), rng.random(SHAPE) < 0.3, rng.random(SHAPE) < 0.3
    lv &= ~rv
    first = {
        "labels": save(tmp_path, "labels/s1.nii", label).replace("s1", "{subject}"),
        "values": dict(enumerate(CLASSES)),
        "annotated": ["RV", "MYO"],
    }
    masks = {"RV": save(tmp_path, "rv.nii", rv), "LV": save(tmp_path, "lv.nii", lv)}

    def expected(voxel):
        one = {0: {0, 3}, 1: {1}, 2: {2}, 3: {0, 3}}[int(label[voxel])]
        other = {1} if rv[voxel] else {3} if lv[voxel] else {0, 2}
        return frozenset(one & other or one | other)

    found = sets_of(tmp_path, first | {"disagreement": "either"}, {"masks": masks})
    assert found == {voxel: expected(voxel) for voxel in VOXELS}
    with pytest.raises(DataError, match=r"contradict each other in \d+ voxel.*`disagreement: either`"):
        sets_of(tmp_path, first, {"masks": masks})


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("radius", [1, 1.5, 4])
def test_uncertain_border(tmp_path, seed, radius):
    """Distances are from centre to centre, in mm; what says nothing does not reach anything."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 5, SHAPE) * (rng.random(SHAPE) < 0.5)
    entry = {"labels": save(tmp_path, "labels/s1.nii", label).replace("s1", "{subject}"), "uncertain_border": radius}
    found = sets_of(tmp_path, entry | {"values": dict(enumerate(CLASSES)) | {4: "unlabelled"}})
    places = np.array(VOXELS) * SPACING
    for k, voxel in enumerate(VOXELS):
        if label[voxel] == 4:
            assert found[voxel] == EVERYTHING
            continue
        near = np.linalg.norm(places - places[k], axis=1) <= radius
        values = {int(label[other]) for other, is_near in zip(VOXELS, near, strict=True) if is_near}
        assert found[voxel] == frozenset(values - {4})


def test_slices_and_border_together(tmp_path):
    """A slice that nobody looked at is no background: no border is between it and what is drawn beside it."""
    label = np.zeros(SHAPE)
    label[1:4, :, 1] = 1
    entry = {"labels": save(tmp_path, "labels/s1.nii", label).replace("s1", "{subject}")}
    entry |= {"values": {0: "background", 1: "RV"}, "annotated_slices": "drawn", "uncertain_border": 5}
    found = sets_of(tmp_path, entry, classes=["background", "RV"])
    assert {found[voxel] for voxel in VOXELS if voxel[2] == 1} == {frozenset({0, 1})}
    entry["uncertain_border"] = 1
    found = sets_of(tmp_path, entry, classes=["background", "RV"])
    assert found[2, 0, 1] == {1}
    assert found[1, 0, 1] == {0, 1}
    assert found[2, 0, 0] == {0, 1}


def test_masks_of_unions(tmp_path):
    """A mask within that of a union does not overlap with it."""
    heart, lv = np.zeros(SHAPE), np.zeros(SHAPE)
    heart[1:4], lv[2] = 1, 1
    entry = {"masks": {"whole heart": save(tmp_path, "heart.nii", heart), "LV": save(tmp_path, "lv.nii", lv)}}
    found = sets_of(tmp_path, entry, unions={"whole heart": ["RV", "MYO", "LV"]})
    assert [found[x, 0, 0] for x in range(3)] == [{0}, {1, 2}, {3}]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"annotated_slices": [4]}, r"s1\.nii: has 3 slice\(s\), but `annotated_slices` names slice 4\. Count from 1"),
        ({"values": None, "labels": None, "masks": {"RV": "labels/s1.nii"}}, r"holds label value|\[2\].*0 and 255"),
    ],
)
def test_mistakes_in_files(tmp_path, entry, message):
    save(tmp_path, "labels/s1.nii", np.full(SHAPE, 2))
    with pytest.raises(DataError, match=message):
        sets_of(tmp_path, {"labels": "labels/{subject}.nii", "values": dict(enumerate(CLASSES))} | entry)
