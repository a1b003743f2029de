"""Tests of converting MSCMR."""

from __future__ import annotations

import gzip
from itertools import permutations

import numpy as np
import pytest

from dcl_monai.datalist.convert import convert_mscmr
from dcl_monai.datalist.load import load_datalist

ORIGINAL = [0, 200, 500, 600]
REDUCED = [0, 1, 2, 3]
SPLITS = ("training", "validation", "test")


def anatomy(myo: int, lv: int, rv: int, open_ring: bool = False) -> np.ndarray:
    """A short axis: the LV in the ring of the myocardium, the RV beside it; the ring is open in the outer slices."""
    x, y = np.indices((24, 24))
    distance = np.hypot(x - 9, y - 9)
    label = np.zeros((24, 24, 4), np.int16)
    label[(x > 12) & (x < 21) & (y > 4) & (y < 15)] = rv
    label[distance < 6] = myo
    label[distance < 4] = lv
    label[9:, 9, [0, 3] if not open_ring else slice(None)] = 0
    return label


def strokes(label: np.ndarray, blank: int, background: int) -> np.ndarray:
    """A line through every structure, and one outside."""
    result = np.full_like(label, blank)
    result[9, :] = np.where(label[9, :] > 0, label[9, :], blank)
    result[15] = np.where(label[15] > 0, label[15], blank)
    result[22, 2:10] = background
    return result


@pytest.fixture
def add_subjects(add, write_nifti):
    def write(folder: str, values: list[int], labelled=range(1, 10), unlabelled=()) -> None:
        for number in (*labelled, *unlabelled):
            add(f"{folder}/images/subject{number}_DE.nii.gz")
        for number in labelled:
            drawn = anatomy(*values[1:]) if len(values) == 4 else np.array(values, np.int16)[:, None, None]
            write_nifti(f"{folder}/manual/subject{number}_DE_manual.nii.gz", drawn)

    return write


@pytest.mark.parametrize("values", [ORIGINAL, *([0, *order] for order in permutations((1, 2, 3)))])
def test_the_ring_tells_the_values(tmp_path, add_subjects, meaning, values):
    add_subjects("a", values)
    notes: list[str] = []
    document = convert_mscmr(tmp_path / "a", note=notes.append)
    assert meaning(document, values) == [{"background"}, {"MYO"}, {"LV"}, {"RV"}]
    assert document["classes"] == ["background", "RV", "MYO", "LV"]
    assert document["split"] == [25, 5, 15]
    if values is not ORIGINAL:
        assert f"{values[1]} encloses {values[2]}" in notes[0]


def test_open_rings_need_the_word_of_the_user(tmp_path, add_subjects, write_nifti, refuse, meaning):
    add_subjects("a", REDUCED)
    for number in range(1, 10):
        write_nifti(f"a/manual/subject{number}_DE_manual.nii.gz", anatomy(2, 3, 1, open_ring=True))
    assert "--order RV,MYO,LV" in refuse("mscmr", tmp_path / "a")
    told = meaning(convert_mscmr(tmp_path / "a", order="RV,MYO,LV"), [1, 2, 3])
    assert told == [{"RV"}, {"MYO"}, {"LV"}]
    assert "each" in refuse("mscmr", tmp_path / "a", order="RV,MYO")


def test_splits_are_those_of_the_folders(tmp_path, add, write_nifti):
    """Folders as a public copy has them: scribbles to train on, full labels to measure on."""
    label = anatomy(2, 3, 1)
    for folder, numbers in (("train", (1, 2, 3)), ("val", (4,)), ("TestSet", (5, 6, 7))):
        for number in numbers:
            add(f"m/{folder}/images/subject{number}_DE.nii.gz")
            ending, drawn = ("scribble", strokes(label, 4, 0)) if folder == "train" else ("manual", label)
            write_nifti(f"m/{folder}/labels/subject{number}_DE_{ending}.nii.gz", drawn)
    add("m/TestSet/images/subject8_DE.nii.gz")
    notes: list[str] = []
    datalist = load_datalist(convert_mscmr(tmp_path / "m", unlabelled=True, note=notes.append))
    numbers = [[int(item["image"][-11]) for item in datalist[split]] for split in SPLITS]
    assert numbers == [[1, 2, 3], [4], [5, 6, 7]]
    first = datalist["training"][0]
    assert first["values"] == {0: [0], 1: [1], 2: [2], 3: [3]}
    assert first["unlabelled"] == [4]
    assert any("3 training, 1 validation, 3 test" in note for note in notes)
    assert any("4 covers most" in note for note in notes)
    assert any("1 image(s) without a label are left out" in note for note in notes)


def test_scribbles_left_blank_with_zero(tmp_path, add, add_subjects, write_nifti):
    add_subjects("a", [0, 2, 3, 1])
    add("a/images/subject11_DE.nii.gz")
    write_nifti("a/strokes/subject11_DE_scribble.nii.gz", strokes(anatomy(2, 3, 1), 0, 4))
    values = convert_mscmr(tmp_path / "a")["datasets"]["MSCMR scribbles"]["values"]
    assert values == {0: "unlabelled", 4: "background", 1: "RV", 2: "MYO", 3: "LV"}


def test_values_are_told_by_all_files_together(tmp_path, add, add_subjects, meaning):
    add_subjects("a", ORIGINAL, labelled=range(3, 10))
    for number, values in ((1, [0]), (2, [0, 600])):  # neither shows a ring
        add(f"a/images/subject{number}_DE.nii.gz")
        add(f"a/manual/subject{number}_DE_manual.nii.gz", values)
    assert meaning(convert_mscmr(tmp_path / "a"), [600]) == [{"RV"}]


def test_files_are_found_and_ordered(tmp_path, add, add_subjects):
    add_subjects("a", ORIGINAL, labelled=[10, 2, 1])
    add("a/images/subject1_C0.nii.gz")
    add("a/images/subject1_T2.nii.gz")
    (tmp_path / "a/images/._subject3_DE.nii.gz").write_bytes(b"left by macOS")
    (tmp_path / "a/unpacked/subject2_DE.nii.gz").mkdir(parents=True)  # a folder that is named like an image
    entry = convert_mscmr(tmp_path / "a")["datasets"]["MSCMR"]
    assert [item["subject"] for item in entry["training"]] == ["subject1", "subject2", "subject10"]
    paths = {"image": "images/subject1_DE.nii.gz", "label": "manual/subject1_DE_manual.nii.gz"}
    assert entry["training"][0] == {**paths, "subject": "subject1"}


def test_unlabelled_images(tmp_path, add_subjects):
    add_subjects("a", ORIGINAL, unlabelled=[10, 11])
    notes: list[str] = []
    without = load_datalist(convert_mscmr(tmp_path / "a", note=notes.append))
    assert [note.split(" image")[0] for note in notes] == ["2"]
    assert [len(without[split]) for split in SPLITS] == [5, 1, 3]
    together = load_datalist(convert_mscmr(tmp_path / "a", unlabelled=True))
    # nothing can be measured on them: all are training images, and the labelled ones stay where they were
    blank = [item for item in together["training"] if "label" not in item]
    assert [item["case"] for item in blank] == ["images/subject10_DE", "images/subject11_DE"]
    for split in SPLITS:
        labelled = {item["case"] for item in together[split] if "label" in item}
        assert labelled == {item["case"] for item in without[split]}


class TestRefusals:
    def test_files_that_count_differently(self, tmp_path, add_subjects, write_nifti, refuse):
        add_subjects("a", [0, 1, 2, 3])
        write_nifti("a/manual/subject4_DE_manual.nii.gz", anatomy(2, 3, 1))
        message = refuse("mscmr", tmp_path / "a")
        assert "subject4_DE_manual.nii.gz: value 2 encloses 3" in message
        assert "value 1 encloses 2" in message
        write_nifti("a/manual/subject4_DE_manual.nii.gz", anatomy(1, 2, 3))
        assert "but --order says RV,MYO,LV" in refuse("mscmr", tmp_path / "a", order="RV,MYO,LV")

    def test_original_values_of_other_structures(self, tmp_path, add_subjects, refuse):
        add_subjects("a", [0, 500, 200, 600])
        assert "value 500 encloses 200, but 200 is MYO" in refuse("mscmr", tmp_path / "a")

    def test_strokes_that_count_differently(self, tmp_path, add_subjects, write_nifti, refuse):
        add_subjects("a", [0, 2, 3, 1])
        write_nifti("a/strokes/subject4_DE_scribble.nii.gz", strokes(anatomy(1, 2, 3), 4, 0))
        assert "strokes with value 1 lie mostly in value 2" in refuse("mscmr", tmp_path / "a")

    def test_split_folders_are_never_mixed(self, tmp_path, add_subjects, refuse):
        add_subjects("a/train", ORIGINAL, labelled=[1, 2, 3])
        add_subjects("a", ORIGINAL, labelled=[4])
        assert "subject4_DE.nii.gz: is in no folder of training" in refuse("mscmr", tmp_path / "a")
        (tmp_path / "a/val").mkdir()
        (tmp_path / "a/manual").rename(tmp_path / "a/val/manual")
        assert "lies in the folder of validation, but its image" in refuse("mscmr", tmp_path / "a")

    @pytest.mark.parametrize("value", [4, 100, 201, -1])
    def test_unknown_value(self, tmp_path, add, add_subjects, refuse, value):
        add_subjects("a", ORIGINAL)
        add("a/manual/subject4_DE_manual.nii.gz", [0, 500, value])
        message = refuse("mscmr", tmp_path / "a")
        assert message.startswith(f"{tmp_path / 'a/manual/subject4_DE_manual.nii.gz'}: label value {value} ")

    def test_fractions(self, tmp_path, add_subjects, write_nifti, refuse):
        add_subjects("a", ORIGINAL)
        write_nifti("a/manual/subject4_DE_manual.nii.gz", np.array([[[0.0, 200.5]]]))
        assert "label value 200.5" in refuse("mscmr", tmp_path / "a")

    def test_mixture_of_files(self, tmp_path, add, add_subjects, refuse):
        add_subjects("a", ORIGINAL)
        add("a/manual/subject4_DE_manual.nii.gz", [0, 2])
        message = refuse("mscmr", tmp_path / "a")
        assert "subject4_DE_manual.nii.gz: holds label value 2, but" in message
        assert "subject1_DE_manual.nii.gz holds 200" in message

    def test_mixture_in_one_file(self, tmp_path, add, add_subjects, refuse):
        add_subjects("a", ORIGINAL, unlabelled=[10])
        add("a/manual/subject10_DE_manual.nii.gz", [0, 3, 200])
        assert "mix" in refuse("mscmr", tmp_path / "a")

    def test_nothing_drawn(self, tmp_path, add_subjects, refuse):
        add_subjects("a", [0])
        assert "all labels are empty" in refuse("mscmr", tmp_path / "a")

    def test_missing_files(self, tmp_path, add, add_subjects, refuse):
        assert "no such folder" in refuse("mscmr", tmp_path / "nowhere")
        (tmp_path / "empty").mkdir()
        assert "no subjectN_DE.nii.gz" in refuse("mscmr", tmp_path / "empty")
        add_subjects("images only", ORIGINAL, labelled=[], unlabelled=[1, 2])
        assert "has 2 image(s), but no label" in refuse("mscmr", tmp_path / "images only")
        add_subjects("a", ORIGINAL)
        (tmp_path / "a/images/subject3_DE.nii.gz").unlink()
        message = refuse("mscmr", tmp_path / "a")
        assert message.startswith(f"{tmp_path / 'a/manual/subject3_DE_manual.nii.gz'}: no image")

    def test_two_files_of_one_subject(self, tmp_path, add, add_subjects, refuse):
        add_subjects("a", ORIGINAL)
        add("a/old/subject3_DE.nii.gz")
        message = refuse("mscmr", tmp_path / "a")
        assert all(f"{folder}/subject3_DE.nii.gz" in message for folder in ("images", "old"))

    @pytest.mark.parametrize(
        "content",
        [b"", b"<html>", gzip.compress(b"no NIfTI"), gzip.compress(bytes(400)), None],
        ids=["empty", "no gzip", "no NIfTI", "zeros", "truncated"],
    )
    def test_broken_file(self, tmp_path, add_subjects, refuse, content):
        add_subjects("a", ORIGINAL)
        path = tmp_path / "a/manual/subject1_DE_manual.nii.gz"
        path.write_bytes(path.read_bytes()[:-20] if content is None else content)
        assert refuse("mscmr", tmp_path / "a").startswith(f"{path}: cannot be read")
