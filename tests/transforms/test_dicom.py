"""Regions on DICOM series. Who wrote the files is said in make_dicom_regions.py."""

from __future__ import annotations

import shutil
import zipfile
from functools import reduce
from operator import and_
from pathlib import Path

import numpy as np
import pytest

pydicom = pytest.importorskip("pydicom")
pytest.importorskip("highdicom")

from dcl_monai.check import find_problems, inspect_datalist  # noqa: E402
from dcl_monai.datalist import load_datalist, write_datalist  # noqa: E402
from dcl_monai.transforms import LoadCandidatesd, LoadImagesd  # noqa: E402
from dcl_monai.transforms.dicom import fill_contours  # noqa: E402
from dcl_monai.transforms.files import read_image  # noqa: E402
from dcl_monai.utils import DataError  # noqa: E402

ORIENTATIONS = ("straight", "flipped", "sagittal", "oblique")
CLASSES = ["background", "RV", "MYO", "LV"]
EVERYTHING, HEART, LV = 0b1111, 0b1110, 0b1000


@pytest.fixture
def root(tmp_path) -> Path:
    with zipfile.ZipFile(Path(__file__).with_name("dicom_regions.zip")) as archive:
        archive.extractall(tmp_path)
    return tmp_path


def described(root, file="rtstruct.dcm", **entries):
    entry = {
        "folder": str(root),
        "images": "{subject}/series",
        "labels": "{subject}/" + file,
        "names": {"Ventricle_L": "LV"},
        "split": "training",
    }
    unions = {"whole heart": ["RV", "MYO", "LV"]}
    return {"classes": CLASSES, "unions": unions, "datasets": {"scans": entry | entries}}


def item_of(root, subject="straight", *args, **entries):
    datalist = load_datalist(described(root, *args, **entries))
    return next(item for item in datalist["training"] if item["subject"] == subject)


def sets_of(item):
    """Candidate set of every voxel, and the image."""
    loaded = LoadCandidatesd("label", len(CLASSES), classes=CLASSES)(LoadImagesd("image")(dict(item)))
    label = loaded["label"]
    return np.array(label.meta["candidate_sets"])[label.numpy().astype(int)][0], loaded["image"]


def expected(folder, image):
    """What the regions say, voxel by voxel, on the grid of the image that was read."""
    truth = dict(np.load(folder / "truth.npz"))
    to_image = np.linalg.inv(image.affine.numpy()) @ truth["affine"]
    told = {"whole heart": HEART, "Ventricle_L": LV}
    sets = np.full(image.shape[1:], EVERYTHING)
    for place in np.argwhere(truth["whole heart"] | True):
        bits = reduce(and_, (b if truth[n][tuple(place)] else EVERYTHING & ~b for n, b in told.items()))
        where = to_image @ [*place, 1]
        sets[tuple(np.rint(where[:3]).astype(int))] = bits
    return sets


@pytest.mark.parametrize("file", ["rtstruct.dcm", "seg.dcm"])
@pytest.mark.parametrize("orientation", ORIENTATIONS)
def test_every_voxel_is_where_it_was_drawn(root, orientation, file):
    sets, image = sets_of(item_of(root, orientation, file))
    np.testing.assert_array_equal(sets, expected(root / orientation, image))
    assert {*np.unique(sets)} == {1, HEART & ~LV, LV}


@pytest.mark.parametrize("file", ["rtstruct.dcm", "seg.dcm"])
def test_check_and_list(root, file):
    datalist = load_datalist(described(root, file))
    problems = find_problems(datalist, inspect_datalist(datalist, progress=False))
    kinds = {problem.kind for problem in problems if problem.severity == "error"}
    assert kinds == {"Empty list", "Class annotated nowhere"}  # four scans for training, and RV only within the heart
    write_datalist(datalist, root / "list.json")
    assert load_datalist(root / "list.json") == datalist


def test_a_folder_with_the_file(root):
    (root / "straight" / "RT").mkdir()
    shutil.move(root / "straight" / "rtstruct.dcm", root / "straight" / "RT")
    item = item_of(root, "straight", "RT", allow_missing_labels=True)
    assert item["label"].endswith("RT/rtstruct.dcm")


def test_an_empty_region_is_absent_and_a_missing_one_unknown(root):
    path = root / "straight" / "rtstruct.dcm"
    data = pydicom.dcmread(path)
    _, left = data.ROIContourSequence
    del left.ContourSequence
    data.save_as(path)
    sets, _ = sets_of(item_of(root))
    assert {*np.unique(sets)} == {1, HEART & ~LV}
    del data.StructureSetROISequence[1], data.ROIContourSequence[1]
    data.save_as(path)
    sets, _ = sets_of(item_of(root))
    assert {*np.unique(sets)} == {1, HEART}


def test_regions_that_are_left_out(root):
    item = item_of(root, names={"Ventricle_L": "unlabelled"})
    assert item["region"] == "whole heart"
    assert "further_labels" not in item


class TestRefused:
    def test_unknown_region(self, root):
        with pytest.raises(DataError, match=r"rtstruct.dcm.*'Ventricle_L' is unknown.*`names`[^\n]*$"):
            load_datalist(described(root, names={}))

    @pytest.mark.parametrize("file", ["rtstruct.dcm", "seg.dcm"])
    def test_label_of_another_series(self, root, file):
        shutil.copy(root / "flipped" / file, root / "straight" / file)
        with pytest.raises(
            DataError, match=rf"straight/{file}: belongs to the frame of reference [^\n]*Give its own label"
        ):
            sets_of(item_of(root, "straight", file))
        for path in (root / "straight" / "series").iterdir():
            data = pydicom.dcmread(path)
            data.FrameOfReferenceUID = pydicom.dcmread(root / "flipped" / "series" / path.name).FrameOfReferenceUID
            data.save_as(path)
        with pytest.raises(DataError, match=rf"straight/{file}: was drawn on the series [^\n]*Give its own label"):
            sets_of(item_of(root, "straight", file))

    def test_image_that_is_no_series(self, root, write_nifti):
        write_nifti("straight/image.nii.gz", np.random.default_rng(0).normal(size=(20, 16, 9)))
        datalist = load_datalist(described(root, images="{subject}/image.nii.gz"))
        (record,) = inspect_datalist(datalist, progress=False)
        assert "Give the folder of the series" in record.files.problems[0].message

    def test_missing_slices(self, root):
        files = (root / "straight" / "series").iterdir()
        next(file for file in files if pydicom.dcmread(file).InstanceNumber == 5).unlink()
        with pytest.raises(DataError, match=r"straight/series: its slices are 3 to 6 mm apart\. Add the missing ones"):
            read_image(str(root / "straight" / "series"))

    @pytest.mark.parametrize("entry", [{"values": {0: "background", 1: "LV"}}, {"annotated": ["LV"]}])
    def test_values_beside_regions(self, root, entry):
        with pytest.raises(DataError, match=r"rtstruct.dcm: its regions say [^\n]* Leave `values` and `annotated`"):
            load_datalist(described(root, **entry))

    def test_other_files(self, root):
        shutil.copy(root / "straight" / "series" / "0000.dcm", root / "straight" / "rtstruct.dcm")
        with pytest.raises(DataError, match=r"is a DICOM file of modality MR, but a label is RTSTRUCT or SEG"):
            load_datalist(described(root))
        data = (root / "flipped" / "seg.dcm").read_bytes()
        (root / "straight" / "rtstruct.dcm").write_bytes(data[:400])
        with pytest.raises(DataError, match=r"straight/rtstruct.dcm: [^\n]*$"):
            load_datalist(described(root))

    def test_overlap_of_classes(self, root):
        names = {"Ventricle_L": "LV", "whole heart": "RV"}
        content = described(root, names=names)
        content["unions"] = {}
        item = next(item for item in load_datalist(content)["training"] if item["subject"] == "straight")
        with pytest.raises(DataError, match=r"rtstruct.dcm, Ventricle_L: overlaps with .*rtstruct.dcm, whole heart"):
            sets_of(item)


def test_fill_contours():
    """A square whose corners are centres of voxels, with a hole and an island in it."""

    def square(low, high):
        return np.array([[low, low], [low, high], [high, high], [high, low]], float)

    filled = fill_contours([square(4, 6), square(1, 9), square(5, 5), square(2, 8)], (12, 12))
    assert filled[1:10, 1:10].sum() == filled.sum()
    ring = np.zeros((12, 12), bool)
    ring[1:10, 1:10] = True
    ring[3:8, 3:8] = False  # what the hole's contour runs through stays
    ring[4:7, 4:7] = True
    np.testing.assert_array_equal(filled, ring)
