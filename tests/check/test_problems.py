"""Tests of what the check finds: every mistake is provoked, and named with its file, its value and a remedy."""

from __future__ import annotations

import shutil
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest

from dcl_monai.check import inspect_datalist

from .conftest import SHAPE, blocks

SPLITS = ["training", "validation", "test"]


def test_clean_set(datalist, problems_of):
    assert problems_of(datalist) == []


def test_header_that_differs_by_rounding(datalist, write_nifti, problems_of):
    affine = np.eye(4)
    affine[0, 3] = 1e-3
    datalist["test"][0]["label"] = write_nifti("other_gt.nii.gz", blocks(), affine)
    assert problems_of(datalist) == []


def test_images_without_labels_are_fine(datalist, make_item, problems_of):
    item = make_item("bare")
    datalist["training"].append({key: item[key] for key in ("image", "subject", "dataset", "case")})
    assert problems_of(datalist) == []


def test_classes_shown_by_repeated_items(datalist, problems_of):
    datalist["training"] = [item | {"annotated": [j]} for item in datalist["training"] for j in range(3)]
    assert problems_of(datalist) == []


@pytest.mark.parametrize("split", SPLITS)
class TestFiles:
    @pytest.mark.parametrize("key", ["image", "label"])
    @pytest.mark.parametrize("damage", ["missing", "truncated", "text", "empty"])
    def test_unreadable(self, datalist, split, key, damage, problems_of):
        path = Path(datalist[split][0][key])
        content = path.read_bytes()
        path.unlink()
        if damage != "missing":
            path.write_bytes({"truncated": content[: len(content) // 2], "text": b"not an image", "empty": b""}[damage])
        (found,) = problems_of(datalist, "error")
        assert found.message.startswith(f"{path}: cannot be read as NIfTI (")
        assert "()" not in found.message
        assert "Replace the file" in found.message

    def test_shape(self, datalist, split, write_nifti, problems_of):
        item = datalist[split][0]
        item["label"] = write_nifti("other_gt.nii.gz", np.zeros((8, 7, 4), np.uint8))
        (found,) = problems_of(datalist, "error")
        for part in (item["label"], item["image"], "(8, 7, 4)", "(8, 7, 3)", "Resample"):
            assert part in found.message

    @pytest.mark.parametrize("change", ["origin", "spacing", "orientation"])
    def test_affine(self, datalist, split, write_nifti, change, problems_of):
        affine = {
            "origin": np.array([[1, 0, 0, 0.5], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]),
            "spacing": np.diag([1, 1, 1.5, 1]),
            "orientation": np.diag([-1, 1, 1, 1]),
        }[change]
        item = datalist[split][0]
        item["label"] = write_nifti("other_gt.nii.gz", blocks(), affine.astype(float))
        (found,) = problems_of(datalist, "error")
        assert item["label"] in found.message
        assert item["image"] in found.message
        assert f"by up to {2 if change == 'orientation' else 0.5} mm" in found.message
        assert "header" in found.message

    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    def test_not_finite(self, datalist, split, write_nifti, value, problems_of):
        image = np.zeros(SHAPE, np.float32)
        image[1, 2, :2] = value
        item = datalist[split][0]
        item["image"] = write_nifti("broken.nii.gz", image)
        (found,) = problems_of(datalist, "error")
        assert found.message.startswith(f"{item['image']}: holds 2 value(s) that are not finite")
        assert "Replace" in found.message

    def test_label_value(self, datalist, split, write_nifti, problems_of):
        label = blocks().astype(np.int16)
        label[0, :4, 0] = 3
        label[0, 4, 0] = -7
        item = datalist[split][0]
        item["label"] = write_nifti("other_gt.nii.gz", label)
        (found,) = problems_of(datalist, "error")
        assert found.message.startswith(f"{item['label']}: label value(s) [-7, 3] in 5 voxel(s) have no meaning")
        assert "known values are [0, 1, 2]" in found.message
        assert "`values`" in found.message

    def test_image_in_place_of_a_label(self, datalist, split, problems_of):
        item = datalist[split][0]
        item["label"] = item["image"]
        (found,) = problems_of(datalist, "error")
        assert found.message.startswith(f"{item['image']}: holds values like ")
        assert "whole numbers" in found.message

    @pytest.mark.parametrize("key", ["image", "label"])
    def test_several_frames(self, datalist, split, write_nifti, key, problems_of):
        item = datalist[split][0]
        item[key] = write_nifti("cine.nii.gz", np.random.default_rng(0).integers(0, 9, (*SHAPE, 5), np.uint8))
        (found,) = problems_of(datalist, "error")
        assert found.message.startswith(item[key])
        assert "5" in found.message
        assert {"image": "pick one", "label": "one label map"}[key] in found.message


class TestSeveralMistakes:
    def test_all_are_found(self, datalist, problems_of):
        broken = [item["label"] for item in datalist["training"]] + [datalist["test"][0]["image"]]
        for path in broken:
            Path(path).write_bytes(b"")
        found = problems_of(datalist, "error")
        assert [problem.message.split(":")[0] for problem in found] == broken

    def test_image_and_label_of_one_item(self, datalist, problems_of):
        for key in ("image", "label"):
            Path(datalist["test"][0][key]).unlink()
        assert len(problems_of(datalist, "error")) == 2

    def test_errors_come_first(self, datalist, write_nifti, problems_of):
        datalist["training"] = datalist["training"][:3]  # few
        Path(datalist["test"][0]["image"]).unlink()
        assert [problem.severity for problem in problems_of(datalist)] == ["error", "warning"]

    def test_error_of_a_repeated_item_is_told_once(self, datalist, problems_of):
        datalist["training"] = [item | {"annotated": [j]} for item in datalist["training"] for j in range(3)]
        Path(datalist["training"][0]["label"]).unlink()
        assert len(problems_of(datalist, "error")) == 1


def test_constant_image(datalist, write_nifti, sole):
    item = datalist["training"][0]
    item["image"] = write_nifti("flat.nii.gz", np.full(SHAPE, 7, np.float32))
    message = sole(datalist, "error", "Image values that cannot be used")
    assert message.startswith(f"{item['image']}: is nearly constant: all but a few voxels have the value 7")


def test_header_without_voxel_size(datalist, tmp_path, problems_of):
    item = datalist["training"][0]
    for key in ("image", "label"):
        image = nib.Nifti1Image(np.asarray(nib.load(item[key]).dataobj), None)
        image.header.set_sform(np.diag([0.0, 1.0, 1.0, 1.0]), code=1)
        item[key] = str(tmp_path / f"odd_{key}.nii")
        nib.save(image, item[key])
    found = problems_of(datalist, "error")[0]
    assert found.message.startswith(f"{item['image']}: its header has an invalid affine, 0 0 0 0, 0 1 0 0, 0 0 1 0.")


class TestSplits:
    @pytest.mark.parametrize("split", ["training", "validation"])
    def test_empty(self, datalist, split, problems_of):
        datalist[split] = []
        assert problems_of(datalist, "error")[0].message == f"the {split} list is empty: add images to it."

    def test_empty_test_is_allowed(self, datalist, problems_of):
        datalist["test"] = []
        assert problems_of(datalist) == []

    def test_subject_in_two_splits(self, datalist, sole):
        datalist["validation"][0]["subject"] = "train2"
        message = sole(datalist, "error", "Subject in two splits")
        for part in ("'train2'", "training", "validation", datalist["validation"][0]["image"]):
            assert part in message

    def test_same_pixels_in_two_splits(self, datalist, sole):
        shutil.copy(datalist["training"][1]["image"], datalist["test"][0]["image"])
        message = sole(datalist, "error", "Same image in two splits")
        for part in (datalist["training"][1]["image"], datalist["test"][0]["image"], "(training)", "(test)"):
            assert part in message

    def test_same_pixels_stored_in_another_way(self, datalist, write_nifti, sole):
        pixels = np.arange(168).reshape(SHAPE)
        datalist["training"][0]["image"] = write_nifti("a.nii.gz", pixels.astype(np.int16))
        datalist["test"][0]["image"] = write_nifti("b.nii", pixels.astype(np.float32))
        assert "same pixels" in sole(datalist, "error", "Same image in two splits")

    def test_same_pixels_in_one_split(self, datalist, sole):
        shutil.copy(datalist["training"][1]["image"], datalist["training"][3]["image"])
        message = sole(datalist, "warning", "Same image twice")
        assert datalist["training"][3]["image"] in message

    def test_validation_without_labels(self, datalist, problems_of):
        datalist["validation"][0] = {key: datalist["validation"][0][key] for key in ("image", "subject")}
        (found,) = problems_of(datalist, "error")
        assert found.kind == "Validation shows nothing"
        assert datalist["validation"][0]["image"] in found.message

    def test_class_not_seen_in_validation(self, datalist, sole):
        datalist["validation"][0]["annotated"] = [[1]]
        assert "shows LV" in sole(datalist, "warning", "Class not seen in validation")


class TestClasses:
    @pytest.mark.parametrize(
        ("annotated", "expected"),
        [
            pytest.param([[1]], {("LV", "background")}, id="one of two structures"),
            pytest.param([[1, 2]], {("LV", "RV")}, id="the union alone"),
            pytest.param([], {("RV", "background"), ("LV", "background")}, id="nothing"),
            pytest.param([[1], [1, 2]], set(), id="the union and one of its parts"),
        ],
    )
    def test_annotated_nowhere(self, datalist, annotated, expected, problems_of):
        datalist["training"] = [item | {"annotated": annotated} for item in datalist["training"]]
        found = [problem for problem in problems_of(datalist, "error") if problem.kind == "Class annotated nowhere"]
        assert len(found) == len(expected)
        for name, other in expected:
            words = f"'{name}' is annotated in no training image, and no label distinguishes it from '{other}': add"
            assert any(words in problem.message for problem in found)

    def test_learned_by_exclusion(self, datalist, problems_of):
        """Some images show RV, others LV, none the background: it is what neither of them is."""
        half = len(datalist["training"]) // 2
        parts = [[[1]]] * half + [[[2]]] * (len(datalist["training"]) - half)
        items = zip(datalist["training"], parts, strict=True)
        datalist["training"] = [item | {"annotated": annotated} for item, annotated in items]
        assert not problems_of(datalist, "error")
        alone = [problem for problem in problems_of(datalist) if problem.kind == "Class never drawn on its own"]
        assert ["'background'" in problem.message for problem in alone] == [True]

    @pytest.mark.parametrize(("number", "words"), [(1, "the default method needs two"), (3, "4 or more")])
    def test_seen_in_few_subjects(self, datalist, number, words, write_nifti, sole):
        for item in datalist["training"][number:]:
            item["label"] = write_nifti(f"{item['case']}_part_gt.nii.gz", np.where(blocks() == 2, 0, blocks()))
        message = sole(datalist, "warning", "Class seen in few subjects")
        assert f"LV: seen in {number} training subject(s); {words}" in message

    def test_always_empty(self, datalist, make_item, sole):
        label = np.where(blocks() == 2, 0, blocks())
        datalist["training"] += [make_item(f"south{i}", label, "south") for i in range(3)]
        message = sole(datalist, "warning", "Class always empty")
        assert "data set 'south': class 'LV' is annotated in 3 image(s)" in message
        assert datalist["training"][4]["image"] in message

    def test_contradiction(self, datalist, make_item, sole):
        other = make_item("other", np.where(blocks() == 1, 2, blocks()))
        item = datalist["training"].pop()
        datalist["training"].append(make_item("both", blocks()))
        datalist["training"][-1]["further_labels"] = [
            {key: other[key] for key in ("label", "values", "unlabelled", "annotated")}
        ]
        datalist["training"].append(item)
        message = sole(datalist, "error", "Annotations contradict each other")
        both = datalist["training"][-2]
        assert message.startswith(f"{both['image']}: its annotations contradict each other in 9 voxel(s)")
        assert f"{both['label']} says RV; {other['label']} says LV" in message

    def test_unusual_volume(self, datalist, make_item, sole):
        datalist["training"] += [make_item(f"more{i}") for i in range(10)]
        label = blocks()
        label[5, 2, 1] = 1
        label[:, :, 0] = 1
        datalist["training"].append(make_item("odd", label))
        message = sole(datalist, "warning", "Unusual volume")
        assert message.startswith(datalist["training"][-1]["label"])
        assert "RV has 0.066 ml" in message
        assert "0.009 ml are usual" in message


def test_very_different_spacings(datalist, make_item, write_nifti, sole):
    affine = np.diag([1.0, 1.0, 4.0, 1.0])
    item = make_item("far", dataset="south")
    for key in ("image", "label"):
        item[key] = write_nifti(f"thick_{key}.nii.gz", np.asarray(nib.load(item[key]).dataobj), affine)
    datalist["training"].append(item)
    message = sole(datalist, "warning", "Very different voxel sizes")
    assert all(part in message for part in ("'north'", "'south'", "1 x 1 x 1 mm", "1 x 1 x 4 mm")), message


def scribbled(write_nifti, blank: int, background: int) -> dict:
    """Strokes of three structures in an image of full size, written in either convention."""
    items = {}
    for number, split in enumerate([*["training"] * 4, "validation", "test"]):
        label = np.full((60, 60, 2), blank, np.uint8)
        label[10:30, 12:14], label[34:36, 8:40], label[40:52, 40:43] = 1, 2, 3
        label[55, 5:55] = background
        rng = np.random.default_rng(number)
        image = write_nifti(f"{number}.nii.gz", rng.normal(size=label.shape).astype(np.float32))
        item = {"image": image, "label": write_nifti(f"{number}_scribble.nii.gz", label), "dataset": "strokes"}
        item |= {"subject": str(number), "case": str(number), "values": {4: [0], 1: [1], 2: [2], 3: [3]}}
        items.setdefault(split, []).append(item | {"unlabelled": [0], "annotated": [0, 1, 2, 3]})
    return {"classes": ["background", "RV", "MYO", "LV"], "unions": {}, **items}


def test_scribbles_in_the_right_convention(write_nifti, problems_of):
    found = problems_of(scribbled(write_nifti, blank=0, background=4))
    assert [problem.kind for problem in found] == ["Validation by strokes"]


def test_scribbles_in_the_wrong_convention(write_nifti, problems_of):
    """The line of the docs on data that count the other way round: nearly everything is background."""
    datalist = scribbled(write_nifti, blank=4, background=0)
    warned = next(problem for problem in problems_of(datalist) if problem.kind == "Strokes in background")
    assert "0_scribble.nii.gz: its structures are thin strokes, but 95% of the image are labelled as" in warned.message
    assert "write 4: unlabelled, 0: background in `values` of data set 'strokes'" in warned.message
    first = inspect_datalist(datalist, progress=False)[0]
    assert all(part > 0.9 for part in first.known)
    right = inspect_datalist(scribbled(write_nifti, blank=0, background=4), progress=False)[0]
    assert all(part < 0.1 for part in right.known)


def test_ignored_regions_are_no_scribbles(write_nifti, problems_of):
    datalist = scribbled(write_nifti, blank=4, background=0)
    for item in (item for split in ("training", "validation", "test") for item in datalist[split]):
        label = np.full((60, 60, 2), 4, np.uint8)
        label[20:40, 20:40], label[25:35, 25:35], label[40:50, 20:40], label[:5] = 1, 2, 3, 0
        write_nifti(item["label"], label)
    assert "Strokes in background" not in [problem.kind for problem in problems_of(datalist)]


def test_image_and_label_swapped(datalist, problems_of):
    item = datalist["training"][1]
    item["image"], item["label"] = item["label"], item["image"]
    errors = [problem for problem in problems_of(datalist) if problem.severity == "error"]
    assert [problem.message for problem in errors] == [
        f"{item['image']}: looks like a label, and its label {item['label']} like an image. Swap `image` and `label`."
    ]


def test_nothing_is_known(datalist, problems_of, write_nifti):
    item = datalist["training"][1]
    write_nifti(item["label"], np.zeros((8, 7, 3), np.uint8))
    item["annotated_slices"] = "drawn"
    assert "Nothing is known" in [problem.kind for problem in problems_of(datalist)]
