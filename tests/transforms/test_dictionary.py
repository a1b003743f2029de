"""Tests of the dictionary forms, and of coded label maps on their way through MONAI's own transforms."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from monai.data import CacheDataset, MetaTensor, PersistentDataset
from monai.transforms import (
    CenterSpatialCropd,
    Compose,
    Flipd,
    RandAffined,
    RandFlipd,
    RandSpatialCropd,
    ResizeWithPadOrCropd,
    Spacingd,
    SpatialPadd,
)

from dcl_monai import transforms
from dcl_monai.candidates import all_classes, candidate_sets, to_bits
from dcl_monai.transforms import (
    EncodeCandidates,
    EncodeCandidatesd,
    ExpandCandidates,
    ExpandCandidatesd,
    IntersectCandidates,
    IntersectCandidatesd,
)
from dcl_monai.utils import DataError

M = 62  # more classes than float32 has exact integers as bit masks
ANNOTATED = {"full": None, "background": [0], "one": [37], "background and last": [0, 61]}
ANNOTATED |= {"half": list(range(1, 62, 2)), "all but one": list(range(1, 62))}


def same(a: MetaTensor, b: MetaTensor) -> bool:
    names = [label.meta.get("filename_or_obj") for label in (a, b)]
    return torch.equal(a.as_tensor(), b.as_tensor()) and candidate_sets(a) == candidate_sets(b) and names[0] == names[1]


class TestForms:
    @pytest.mark.parametrize("name", ["EncodeCandidates", "IntersectCandidates", "ExpandCandidates"])
    def test_aliases(self, name):
        form = getattr(transforms, f"{name}d")
        assert form.__name__ == f"{name}d"
        for suffix in ("D", "Dict"):
            assert getattr(transforms, name + suffix) is form
            assert name + suffix in transforms.__all__

    @pytest.mark.parametrize("annotated", [None, [], [2], [0, 1]])
    def test_encode(self, annotated):
        label = MetaTensor(torch.tensor([[0, 1, 2]]), meta={"filename_or_obj": "a.nii"})
        item = {"label": label} | ({} if annotated is None else {"annotated": annotated})
        result = EncodeCandidatesd("label", 3)(item)
        assert same(result["label"], EncodeCandidates(3)(label, annotated))
        assert item["label"] is label

    def test_encode_passes_every_argument_on(self):
        label = torch.tensor([[5, 6, 255]])
        arguments = {"values": {5: 2, 6: [0, 1]}, "unlabelled": 255, "background": None}
        result = EncodeCandidatesd(["a", "b"], 3, **arguments, annotated_key="shown", allow_missing_keys=True)(
            {"a": label, "shown": [2], "annotated": [0]}
        )
        assert same(result["a"], EncodeCandidates(3, **arguments)(label, [2]))
        assert "b" not in result

    def test_missing_key(self):
        with pytest.raises(KeyError, match="label"):
            EncodeCandidatesd("label", 3)({"image": torch.zeros(1)})

    def test_error_names_the_file(self):
        label = MetaTensor(torch.tensor([[0, 9]]), meta={"filename_or_obj": "case9.nii.gz"})
        with pytest.raises(DataError, match=r"case9\.nii\.gz.*\[9\] in 1 voxel"):
            EncodeCandidatesd("label", 3)({"label": label})

    def test_intersect(self):
        values, encode = torch.tensor([[0, 1, 2]]), EncodeCandidates(3)
        a, b = encode(values, [1]), encode(values, [2])
        result = IntersectCandidatesd("a", "b")({"a": a, "b": b})
        assert same(result["a"], IntersectCandidates()(a, b))
        assert result["b"] is b

    def test_expand(self):
        label = EncodeCandidates(3)(torch.tensor([[[0, 1, 2]]]), [1])
        result = ExpandCandidatesd("label", 3)({"label": label})
        assert torch.equal(result["label"], ExpandCandidates(3)(label))
        assert result["label"].shape == (3, 1, 3)


def random_labels(dims: int) -> MetaTensor:
    """A label map of small blocks that holds all 62 values."""
    rng = np.random.default_rng(dims)
    blocks = rng.permutation(np.arange(144) % M).reshape((12, 12) if dims == 2 else (6, 6, 4))
    for axis in range(dims):
        blocks = blocks.repeat(3, axis)
    assert len(np.unique(blocks)) == M
    return MetaTensor(
        torch.tensor(blocks[None], dtype=torch.float32), affine=torch.diag(torch.tensor([1.5, 1.5, 2, 1]))
    )


def affine(dims: int) -> RandAffined:
    return RandAffined(
        "label",
        prob=1.0,
        rotate_range=[0.6] * (dims if dims == 3 else 1),
        shear_range=[0.2] * dims,
        translate_range=[6] * dims,
        scale_range=[0.3] * dims,
        mode="nearest",
        padding_mode="zeros",
    )


GEOMETRY = {
    "spacing": lambda dims: Spacingd("label", pixdim=[1.1, 0.9, 1.3][:dims], mode="nearest"),
    "coarse spacing": lambda dims: Spacingd("label", pixdim=[2.3, 2.9, 3.1][:dims], mode="nearest"),
    "affine": affine,
    "pad": lambda dims: SpatialPadd("label", spatial_size=[47] * dims),
    "pad or crop": lambda dims: ResizeWithPadOrCropd("label", spatial_size=[45, 11, 14][:dims]),
    "crop": lambda dims: CenterSpatialCropd("label", roi_size=[9] * dims),
    "random crop": lambda dims: RandSpatialCropd("label", roi_size=[8] * dims, random_size=False),
    "flip": lambda dims: Flipd("label", spatial_axis=0),
    "random flip": lambda dims: RandFlipd("label", prob=1.0, spatial_axis=1),
    "all": lambda dims: Compose(
        [
            Spacingd("label", pixdim=[1.2, 1.3, 1.9][:dims], mode="nearest"),
            affine(dims),
            RandFlipd("label", prob=1.0, spatial_axis=1),
            ResizeWithPadOrCropd("label", spatial_size=[50, 20, 21][:dims]),
        ]
    ),
}
ADDS_VOXELS = ("affine", "pad", "pad or crop", "all")


def run(transform, item):
    if hasattr(transform, "set_random_state"):
        transform.set_random_state(seed=5)
    return transform(item)["label"]


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("annotated", ANNOTATED.values(), ids=ANNOTATED)
class TestThroughMonai:
    @pytest.mark.parametrize("geometry", GEOMETRY)
    def test_sets_survive(self, dims, geometry, annotated):
        """Encode, then transform = transform, then encode: set by set, voxel by voxel."""
        labels, encode = random_labels(dims), EncodeCandidates(M)
        transform = GEOMETRY[geometry](dims)
        coded = run(transform, {"label": encode(labels, annotated)})
        moved = run(transform, {"label": labels})  # what it adds is 0: background, as code 0 must say
        assert torch.equal(ExpandCandidates(M)(coded), ExpandCandidates(M)(encode(moved, annotated)))

        original = set(candidate_sets(encode(labels, annotated)))
        sets = candidate_sets(coded)
        codes = coded.as_tensor()
        assert torch.equal(codes, codes.round())
        assert {sets[int(code)] for code in codes.unique()} <= original
        assert moved.unique().numel() > 1

    @pytest.mark.parametrize("geometry", ADDS_VOXELS)
    def test_fill(self, dims, geometry, annotated):
        """Voxels that a transform adds are told apart from the image's own and hold the set of the outside."""
        labels = random_labels(dims)
        transform = GEOMETRY[geometry](dims)
        added = run(transform, {"label": labels + 1}) == 0
        assert added.any()
        members = ExpandCandidates(M)(run(transform, {"label": EncodeCandidates(M)(labels, annotated)}))
        shown = range(M) if annotated is None else annotated
        expected = torch.zeros(M, dtype=torch.bool)
        expected[[0] if 0 in shown else [j for j in range(M) if j not in shown]] = True
        assert (members[:, added[0].as_tensor()] == expected[:, None]).all()


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("geometry", ADDS_VOXELS)
def test_scribbles_through_monai(dims, geometry):
    """Off the strokes and outside the image nothing is known."""
    labels = random_labels(dims)
    transform = GEOMETRY[geometry](dims)
    coded = EncodeCandidates(M + 1, unlabelled=0, values={j: j for j in range(1, M)})(labels)
    result = run(transform, {"label": coded})
    moved = run(transform, {"label": labels})
    sets = candidate_sets(result)
    for value, code in zip(moved.flatten().tolist(), result.flatten().tolist(), strict=True):
        assert sets[int(code)] == (1 << int(value) if value else all_classes(M + 1))


@pytest.mark.parametrize("annotated", [None, [37], [0, 61]])
@pytest.mark.parametrize("kind", ["cache", "persistent"])
@pytest.mark.parametrize("dims", [2, 3])
def test_caches(tmp_path, dims, kind, annotated):
    encode = EncodeCandidatesd("label", M)
    items = [{"label": random_labels(dims)} | ({} if annotated is None else {"annotated": annotated})]
    transform = Compose([encode, affine(dims).set_random_state(seed=5)])
    if kind == "cache":
        dataset = CacheDataset(items, transform, progress=False)
    else:
        arguments = {"track_meta": True, "weights_only": False, "hash_func": lambda item: b"one"}
        dataset = PersistentDataset(items, transform, tmp_path, **arguments)
        first = dataset[0]["label"]
        assert candidate_sets(first) == candidate_sets(encode(items[0])["label"])
        assert len(list(tmp_path.glob("*.pt"))) == 1
        dataset = PersistentDataset(items, transform, tmp_path, **arguments)
    transform.transforms[1].set_random_state(seed=5)
    loaded = dataset[0]["label"]
    expected = run(affine(dims), encode(items[0]))
    assert torch.equal(ExpandCandidates(M)(loaded), ExpandCandidates(M)(expected))


def test_persistent_dataset_without_metadata_is_refused_not_misread(tmp_path):
    """PersistentDataset drops metadata by default: the codes alone mean nothing, and that is said."""
    items = [{"label": random_labels(2)}]
    for attempt in range(2):
        dataset = PersistentDataset(items, EncodeCandidatesd("label", M), tmp_path, hash_func=lambda item: b"one")
        loaded = dataset[0]["label"]
        if attempt:
            with pytest.raises(ValueError, match="no candidate sets"):
                ExpandCandidates(M)(loaded)


@pytest.mark.parametrize("num_classes", [62, 100])
def test_pickled_for_workers(num_classes):
    label = EncodeCandidates(num_classes)(torch.arange(num_classes).reshape(1, -1, 1), [num_classes - 1])
    restored = pickle.loads(pickle.dumps(label))
    assert candidate_sets(restored) == (to_bits(range(num_classes - 1)), 1 << (num_classes - 1))
    assert torch.equal(ExpandCandidates(num_classes)(restored), ExpandCandidates(num_classes)(label))
