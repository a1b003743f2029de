"""Tests of loading the annotations of an image, in every file format."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import itk
import nibabel as nib
import numpy as np
import pytest
import torch
from helpers import refusal, voxel_sets
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from monai.data import MetaTensor
from monai.transforms import LoadImaged

from dcl_monai.datalist.items import annotations_of
from dcl_monai.transforms import LoadCandidatesd

SHAPE = (5, 4, 3)
TURN = np.array([[0.8, -0.6, 0], [0.6, 0.8, 0], [0, 0, 1]])
AFFINE = np.eye(4)
AFFINE[:3, :3], AFFINE[:3, 3] = TURN @ np.diag([1.25, 1.5, 8]), [10, -20, 5]
FULL = {0: [0], 1: [1], 2: [2]}
QUIET = settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])


def save(path: Path, array: np.ndarray, affine: np.ndarray = AFFINE) -> str:
    """Write NIfTI, NRRD or MetaImage, by the ending, or a DICOM series as a folder; world coordinates are the same."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.name.endswith((".nii", ".nii.gz")):
        nib.save(nib.Nifti1Image(array, affine), path)
        return str(path)
    lps = np.diag([-1, -1, 1, 1]) @ affine  # ITK's world, as DICOM's, points to the left and to the back
    spacing = np.linalg.norm(lps[:3, :3], axis=0)
    direction = lps[:3, :3] / spacing

    def image(part: np.ndarray, origin: np.ndarray):
        result = itk.image_from_array(np.ascontiguousarray(part.T))
        result.SetSpacing(spacing.tolist())
        result.SetOrigin(origin.tolist())
        result.SetDirection(direction)
        return result

    if path.suffix:
        itk.imwrite(image(array, lps[:3, 3]), str(path))
        return str(path)
    path.mkdir()
    for k in range(array.shape[2]):
        origin = lps[:3, 3] + k * lps[:3, 2]
        slice_ = image(array[..., k : k + 1], origin)
        slice_["0020|000e"], slice_["0020|000d"], slice_["0020|0013"] = "1.2.3.4", "1.2.3", str(k)
        slice_["0020|0032"] = "\\".join(f"{x:.10f}" for x in origin)
        slice_["0020|0037"] = "\\".join(f"{x:.10f}" for x in direction[:, :2].T.ravel())
        writer = itk.GDCMImageIO.New()
        writer.KeepOriginalUIDOn()
        itk.imwrite(slice_, str(path / f"{k:03d}.dcm"), imageio=writer)
    return str(path)


def load(item, num_classes=3):
    image = {"image": MetaTensor(torch.zeros(1, *SHAPE), affine=AFFINE)} if "image" not in item else {}
    return LoadCandidatesd("label", num_classes)(item | image)


fails = partial(refusal, load)


@pytest.fixture
def labels() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 3, SHAPE).astype(np.uint8)


class TestFormats:
    @pytest.mark.parametrize("image_format", [".nii.gz", ".nrrd", ".nhdr", ".mha", ".mhd", ""])
    def test_any_image_with_any_label(self, tmp_path, labels, image_format):
        """The right-handed ``AFFINE`` is one that a DICOM series can have: its slices are sorted along their normal."""
        pixels = np.random.default_rng(1).integers(0, 1000, SHAPE).astype(np.int16)
        item = {"image": save(tmp_path / f"image{image_format}", pixels), "values": FULL, "annotated": [1]}
        loaded = LoadImaged("image", ensure_channel_first=True)(item)
        assert loaded["image"].shape == (1, *SHAPE)
        np.testing.assert_array_equal(loaded["image"][0].numpy(), pixels)
        np.testing.assert_allclose(loaded["image"].affine, AFFINE, atol=1e-4)
        for label_format in (".nii.gz", ".nrrd", ".mha"):
            label = load(loaded | {"label": save(tmp_path / f"label{label_format}", labels)})["label"]
            assert label.shape == (1, *SHAPE)
            assert voxel_sets(label) == [(1,) if value == 1 else (0, 2) for value in labels.flatten()]
            torch.testing.assert_close(label.affine, loaded["image"].affine, rtol=0, atol=0)

    @pytest.mark.parametrize("ending", [".nii.gz", ".nrrd", ".mha"])
    @pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint16, np.int32, np.float32, np.float64])
    def test_types_of_values(self, tmp_path, labels, ending, dtype):
        label = save(tmp_path / f"label{ending}", labels.astype(dtype))
        assert voxel_sets(load({"label": label, "values": FULL})["label"]) == [(v,) for v in labels.flatten()]

    def test_large_values(self, tmp_path, labels):
        """Some atlases number their structures up to 600 million, where float32 knows only every 64th number."""
        values = {0: [0], 2**29: [1], 2**29 + 1: [2]}
        path = save(tmp_path / "label.nii", np.array(list(values), np.int32)[labels])
        assert voxel_sets(load({"label": path, "values": values})["label"]) == [(v,) for v in labels.flatten()]


class TestAnnotations:
    def test_none(self):
        label = load({})["label"]
        assert label.shape == (1, *SHAPE)
        assert {*voxel_sets(label)} == {(0, 1, 2)}

    def test_two_are_intersected(self, tmp_path, labels):
        first = save(tmp_path / "a.nii", (labels == 1).astype(np.uint8))
        second = save(tmp_path / "b.nrrd", 7 * (labels == 2).astype(np.uint8))
        item = {"label": first, "values": {0: [0], 1: [1]}, "annotated": [1]}
        item["further_labels"] = [{"label": second, "values": {0: [0], 7: [2]}, "annotated": [2]}]
        assert len(annotations_of(item)) == 2
        assert voxel_sets(load(item)["label"]) == [(v,) for v in labels.flatten()]

    def test_contradiction(self, tmp_path, labels):
        first = save(tmp_path / "a.nii", labels)
        labels[0, 0, 0] = (labels[0, 0, 0] + 1) % 3
        second = save(tmp_path / "b.nii", labels)
        message = fails({"label": first, "values": FULL, "further_labels": [{"label": second, "values": FULL}]})
        assert all(part in message for part in (first, second, "1 voxel")), message

    def test_description_is_taken_off(self, tmp_path, labels):
        item = {"label": save(tmp_path / "a.nii", labels), "values": FULL, "unlabelled": [9], "annotated": [1]}
        item |= {"drawn": [1, 2], "content": "0", "further_labels": [], "subject": "s", "phase": "ED"}
        assert {*load(item)} == {"image", "label", "subject", "phase"}


class TestMistakes:
    @pytest.mark.parametrize("content", [b"", b"text", None])
    @pytest.mark.parametrize("ending", [".nii.gz", ".nii", ".nrrd", ".mha", ".txt"])
    def test_unreadable(self, tmp_path, content, ending):
        path = tmp_path / f"label{ending}"
        if content is not None:
            path.write_bytes(content)
        message = fails({"label": str(path), "values": FULL})
        assert message.startswith(f"{path}: cannot be read")
        assert "Replace the file" in message

    def test_folder_without_dicom(self, tmp_path):
        assert "cannot be read" in fails({"label": str(tmp_path), "values": FULL})

    def test_shape(self, tmp_path):
        path = save(tmp_path / "a.nii", np.zeros((5, 4, 2), np.uint8))
        message = fails({"label": path, "values": FULL})
        assert all(part in message for part in (path, "(5, 4, 2)", "(5, 4, 3)", "Resample")), message

    def test_channels(self, tmp_path):
        path = save(tmp_path / "a.nii", np.zeros((*SHAPE, 2), np.uint8))
        message = fails({"label": path, "values": FULL})
        assert message.startswith(f"{path}: has 2 channels")

    @pytest.mark.parametrize("ending", [".nii", ".nrrd"])
    def test_affine(self, tmp_path, labels, ending):
        moved = AFFINE.copy()
        moved[0, 3] += 2
        path = save(tmp_path / f"a{ending}", labels, moved)
        message = fails({"label": path, "values": FULL})
        assert message.startswith(f"{path}: its affine differs from that of its image by up to 2 mm")


@given(
    array=arrays.arrays(np.int16, SHAPE, elements=st.integers(-300, 300)), known=st.sets(st.integers(-2, 4), min_size=1)
)
@QUIET
def test_values_without_meaning(tmp_path, array, known):
    """Integers are mapped by the list, or refused with file and value; nothing is assumed."""
    path = save(tmp_path / "label.nii", array)
    item = {"label": path, "values": {value: [abs(value) % 3] for value in known}}
    unknown = set(array.flatten().tolist()) - known
    if not unknown:
        assert voxel_sets(load(item)["label"]) == [(abs(value) % 3,) for value in array.flatten().tolist()]
        return
    message = fails(item)
    assert message.startswith(path)
    assert str(sorted(unknown)[:10])[:-1] in message  # an image in place of a label has thousands
    assert str(sorted(known)) in message


@given(
    array=arrays.arrays(np.float32, SHAPE, elements=st.sampled_from([0.0, 1.0, 2.0])),
    odd=st.sampled_from([0.5, -0.25, 1.0000001, 1e-30, np.nan, np.inf, -np.inf, 1e30, -1e30, 2.0**63]),
)
@QUIET
def test_numbers_that_are_no_labels(tmp_path, array, odd):
    array[0, 0, 0] = odd
    message = fails({"label": save(tmp_path / "label.nii", array), "values": FULL})
    assert message.startswith(str(tmp_path / "label.nii"))
    assert "whole numbers" in message or "have no meaning" in message
