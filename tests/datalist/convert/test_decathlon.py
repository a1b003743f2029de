"""Tests of converting the Decathlon's tasks."""

from __future__ import annotations

import pytest

from dcl_monai.datalist.convert import convert_decathlon
from dcl_monai.datalist.load import load_datalist

LABELS = {"0": "background", "2": "Posterior", "1": "Anterior"}


@pytest.fixture
def add_task(add, add_json):
    def write(suffix: str = "", **changes) -> None:
        for number in range(5):
            add(f"imagesTr/h_{number}{suffix}.nii.gz")
            add(f"labelsTr/h_{number}.nii.gz", [0, 1, 2])
        pairs = [{"image": f"./imagesTr/h_{n}.nii.gz", "label": f"./labelsTr/h_{n}.nii.gz"} for n in range(5)]
        content = {"name": "Hippocampus", "modality": {"0": "MRI"}, "labels": LABELS, "training": pairs}
        add_json(**(content | {"test": ["./imagesTs/h_8.nii.gz", "./imagesTs/h_9.nii.gz"]} | changes))

    return write


def test_task(tmp_path, add_task, meaning):
    add_task()
    (tmp_path / "imagesTr/._h_0.nii.gz").write_bytes(b"left by macOS")
    notes: list[str] = []
    document = convert_decathlon(tmp_path, note=notes.append)
    classes = ["background", "Anterior", "Posterior"]
    entry = {"folder": str(tmp_path), "values": dict(enumerate(classes)), "list": "dataset.json"}
    assert document == {"classes": classes, "split": [60, 20, 20], "datasets": {"Hippocampus": entry}}
    assert notes[0].startswith("2 test image(s) are left out")
    datalist = load_datalist(document)
    assert [len(datalist[split]) for split in ("training", "validation", "test")] == [3, 1, 1]
    assert meaning(document, [0, 1, 2]) == [{"background"}, {"Anterior"}, {"Posterior"}]


def test_names_of_nnunet_v1(tmp_path, add_task, meaning):
    add_task(suffix="_0000")
    document = convert_decathlon(tmp_path)
    items = document["datasets"]["Hippocampus"]["training"]
    assert items[0] == {"image": "./imagesTr/h_0_0000.nii.gz", "label": "./labelsTr/h_0.nii.gz"}
    assert meaning(document, [1]) == [{"Anterior"}]


def test_own_splits_and_unions_stay(tmp_path, add_task):
    pairs = [{"image": f"imagesTr/h_{n}.nii.gz", "label": f"labelsTr/h_{n}.nii.gz"} for n in range(5)]
    add_task(training=pairs[:2], validation=pairs[2:3], test=pairs[3:], unions={"all of it": ["Anterior", "Posterior"]})
    datalist = load_datalist(convert_decathlon(tmp_path))
    assert [len(datalist[split]) for split in ("training", "validation", "test")] == [2, 1, 2]
    assert datalist["unions"] == {"all of it": [1, 2]}


class TestRefusals:
    def test_no_list(self, tmp_path, add_task, refuse):
        assert "no such folder" in refuse("decathlon", tmp_path / "nowhere")
        assert "no dataset.json" in refuse("decathlon", tmp_path)
        (tmp_path / "dataset.json").write_text('{"labels": \n oops}')
        assert "line 2: is not JSON" in refuse("decathlon", tmp_path)
        add_task(training=[])
        assert "no `training` image" in refuse("decathlon", tmp_path)

    @pytest.mark.parametrize("key", ["image", "label"])
    def test_missing_file(self, tmp_path, add_task, refuse, key):
        add_task()
        gone = tmp_path / f"{key}sTr/h_3.nii.gz"
        gone.unlink()
        assert f"lists './{key}sTr/h_3.nii.gz' as {key}, but there is no such file" in refuse("decathlon", tmp_path)

    def test_several_channels(self, tmp_path, add_task):
        add_task(modality={"0": "T2", "1": "ADC"})
        assert convert_decathlon(tmp_path)["channels"] == ["T2", "ADC"]
        add_task()
        assert "channels" not in convert_decathlon(tmp_path)

    def test_nnunet(self, tmp_path, add_task, refuse):
        add_task(labels={"background": 0, "Anterior": 1}, channel_names={"0": "MRI"})
        assert "convert nnunet" in refuse("decathlon", tmp_path)
        add_task(labels={"background": 0, "Anterior": 1}, channel_names={"0": "MRI"}, training=None)
        assert "convert nnunet" in refuse("decathlon", tmp_path)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"labels": {"1": "Anterior", "2": "Posterior"}}, "`labels` has no 0"),
            ({"labels": {"0": "background", "1": 5}}, "`classes"),
            ({"labels": None}, "`labels`"),
            ({"training": [{"label": "a.nii.gz"}]}, "image` is missing"),
        ],
    )
    def test_malformed(self, tmp_path, add_task, refuse, changes, message):
        add_task(**changes)
        assert message in refuse("decathlon", tmp_path)
