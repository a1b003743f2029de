"""Tests of converting MSCMR."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from dcl_monai.datalist.convert import convert_mscmr
from dcl_monai.datalist.load import load_datalist

ORIGINAL = [0, 200, 500, 600]
REDUCED = [0, 1, 2, 3]
SPLITS = ("training", "validation", "test")


@pytest.fixture
def add_subjects(add):
    def write(folder: str, values: list[int], labelled=range(1, 10), unlabelled=()) -> None:
        for number in (*labelled, *unlabelled):
            add(f"{folder}/images/subject{number}_DE.nii.gz")
        for number in labelled:
            add(f"{folder}/manual/subject{number}_DE_manual.nii.gz", values)

    return write


def test_original_and_reduced_values_mean_the_same(tmp_path, add_subjects, meaning):
    add_subjects("original", ORIGINAL)
    add_subjects("reduced", REDUCED)
    assumed: dict[str, list[str]] = {"original": [], "reduced": []}
    documents = {name: convert_mscmr(tmp_path / name, note=notes.append) for name, notes in assumed.items()}
    told = meaning(documents["original"], ORIGINAL)
    assert told == [{"background"}, {"MYO"}, {"LV"}, {"RV"}]
    assert meaning(documents["reduced"], REDUCED) == told
    assert documents["original"]["classes"] == documents["reduced"]["classes"] == ["background", "RV", "MYO", "LV"]
    assert documents["original"]["split"] == [25, 5, 15]
    assert assumed["original"] == []
    assert "1 MYO, 2 LV, 3 RV" in assumed["reduced"][0]


def test_values_are_told_by_all_files_together(tmp_path, add, add_subjects, meaning):
    add_subjects("a", ORIGINAL, labelled=range(3, 10))
    for number, values in ((1, [0]), (2, [0, 600])):  # subject 1 could be of either numbering
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
    assert entry["training"][0] == {
        "image": "images/subject1_DE.nii.gz",
        "label": "manual/subject1_DE_manual.nii.gz",
        "subject": "subject1",
    }


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
        assert "images/subject3_DE.nii.gz" in message
        assert "old/subject3_DE.nii.gz" in message

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
