"""Tests of converting TotalSegmentator's layout."""

from __future__ import annotations

import pytest

from dcl_monai.datalist.convert import convert_totalsegmentator
from dcl_monai.datalist.load import load_datalist
from dcl_monai.datalist.splits import SPLITS


@pytest.fixture
def root(tmp_path, add):
    for k in range(5):
        add(f"t/s{k:04}/ct.nii.gz")
        for place, name in enumerate(("liver", "spleen", "heart")):
            if (k, name) != (2, "spleen"):
                add(f"t/s{k:04}/segmentations/{name}.nii.gz", [int(value == place) for value in range(3)])
    add("t/other/readme.nii.gz")
    return tmp_path / "t"


def test_masks(root):
    notes: list[str] = []
    document = convert_totalsegmentator(root, note=notes.append)
    assert document["classes"] == ["background", "heart", "liver", "spleen"]
    items = [item for split in SPLITS for item in load_datalist(document)[split]]
    drawn = {item["subject"]: 1 + len(item.get("further_labels", ())) for item in items}
    assert drawn == {"s0000": 3, "s0001": 3, "s0002": 2, "s0003": 3, "s0004": 3}
    assert any("1 mask(s) are missing" in note for note in notes)


def test_some_structures_and_the_splits_of_the_table(root):
    splits = zip(range(5), ("train", "train", "val", "train", "test"), strict=True)
    (root / "meta.csv").write_text("image_id;age;split\n" + "".join(f"s{k:04};50;{split}\n" for k, split in splits))
    document = convert_totalsegmentator(root, structures="liver, spleen")
    assert document["classes"] == ["background", "liver", "spleen"]
    datalist = load_datalist(document)
    assert [[item["subject"] for item in datalist[split]] for split in SPLITS] == [
        ["s0000", "s0001", "s0003"],
        ["s0002"],
        ["s0004"],
    ]


def test_refusals(root, refuse, tmp_path):
    assert "'livr' is unknown" in refuse("totalsegmentator", root, structures="livr")
    assert "do you mean 'liver'?" in refuse("totalsegmentator", root, structures="livr")
    assert "no folder in it holds ct.nii.gz" in refuse("totalsegmentator", root / "other")
