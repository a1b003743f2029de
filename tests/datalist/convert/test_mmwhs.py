"""Tests of converting MM-WHS."""

from __future__ import annotations

import pytest

from dcl_monai.datalist.convert import convert_mmwhs
from dcl_monai.datalist.load import load_datalist

VALUES = [0, 205, 420, 421, 500, 550, 600, 820, 850]
SPLITS = ("training", "validation", "test")


@pytest.fixture
def add_cases(add):
    def write(modality: str, count: int = 6, tests: int = 0) -> None:
        for number in range(1001, 1001 + count):
            add(f"{modality}_train/{modality}_train_{number}_image.nii.gz")
            add(f"{modality}_train/{modality}_train_{number}_label.nii.gz", VALUES)
        for number in range(2001, 2001 + tests):
            add(f"{modality}_test/{modality}_test_{number}_image.nii.gz")

    return write


@pytest.mark.parametrize("modality", ["mr", "ct"])
def test_the_modality_that_is_there(tmp_path, add_cases, meaning, modality):
    add_cases(modality)
    document = convert_mmwhs(tmp_path)
    assert list(document["datasets"]) == [f"MM-WHS {modality.upper()}"]
    assert document["split"] == [20, 10, 30]
    assert document["unions"] == {"whole heart": ["LV", "MYO", "RV", "LA", "RA", "AO", "PA"]}
    assert [len(load_datalist(document)[split]) for split in SPLITS] == [2, 1, 3]
    names = ["background", "MYO", "LA", "LA", "LV", "RA", "RV", "AO", "PA"]
    assert meaning(document, VALUES) == [{name} for name in names]


def test_modality_must_be_chosen(tmp_path, add_cases, refuse):
    add_cases("mr")
    assert "no image of modality 'ct'" in refuse("mmwhs", tmp_path, modality="ct")
    add_cases("ct")
    assert "--modality mr or --modality ct" in refuse("mmwhs", tmp_path)
    items = convert_mmwhs(tmp_path, modality="ct")["datasets"]["MM-WHS CT"]["training"]
    assert {item["subject"][:2] for item in items} == {"ct"}


def test_test_images(tmp_path, add, add_cases):
    add_cases("mr", tests=3)
    notes: list[str] = []
    assert list(convert_mmwhs(tmp_path, note=notes.append)["datasets"]) == ["MM-WHS MR"]
    assert notes[0].startswith("3 image(s) without a label are left out")
    together = load_datalist(convert_mmwhs(tmp_path, unlabelled=True))
    assert [len(together[split]) for split in SPLITS] == [2 + 3, 1, 3]
    # labels of test images that were published later are used
    add("mr_test/mr_test_2001_label.nii.gz", VALUES)
    assert len(convert_mmwhs(tmp_path)["datasets"]["MM-WHS MR"]["training"]) == 7


def test_refusals(tmp_path, add_cases, refuse):
    assert "no such folder" in refuse("mmwhs", tmp_path / "nowhere")
    assert "no mr_train_NNNN_image.nii.gz" in refuse("mmwhs", tmp_path)
    add_cases("mr")
    (tmp_path / "mr_train/mr_train_1002_image.nii.gz").unlink()
    assert refuse("mmwhs", tmp_path).startswith(f"{tmp_path / 'mr_train/mr_train_1002_label.nii.gz'}: no image")
