"""Tests of converting nnU-Net's data sets."""

from __future__ import annotations

import pytest

from dcl_monai.datalist.convert import convert_nnunet
from dcl_monai.datalist.load import load_datalist

PLAIN = {"background": 0, "spleen": 2, "liver": 1}
KITS = {"background": 0, "kidney": [1, 2, 3], "masses": [2, 3], "tumor": 2}
CASES = [f"case_{number}" for number in range(5)]


@pytest.fixture
def add_dataset(add, add_json):
    def write(labels=PLAIN, channels=("CT",), ending=".nii.gz", **entries) -> None:
        for case in CASES:
            for channel in range(len(channels)):
                add(f"imagesTr/{case}_{channel:04d}{ending}")
            add(f"labelsTr/{case}{ending}", [0, 1, 2])
        names = {str(number): name for number, name in enumerate(channels)}
        content = {"channel_names": names, "labels": labels, "numTraining": len(CASES), "file_ending": ending}
        add_json(**(content | entries))

    return write


@pytest.mark.parametrize("ending", [".nii.gz", ".nii"])
def test_plain(tmp_path, add, add_dataset, meaning, ending):
    add_dataset(ending=ending)
    for hidden in ("imagesTr/._case_0_0000", "labelsTr/._case_0"):
        (tmp_path / f"{hidden}{ending}").write_bytes(b"left by macOS")
    for test in ("t1_0000", "t1_0001", "t2_0000"):
        add(f"imagesTs/{test}{ending}")
    notes: list[str] = []
    document = convert_nnunet(tmp_path, note=notes.append)
    assert document["classes"] == ["background", "liver", "spleen"]
    assert document["unions"] == {}
    entry = document["datasets"][tmp_path.name]
    assert [item["subject"] for item in entry["training"]] == CASES
    assert entry["training"][0]["image"] == f"imagesTr/case_0_0000{ending}"
    assert notes[0] == "2 case(s) in imagesTs are left out."
    assert len(load_datalist(document)["training"]) == 3
    assert meaning(document, [0, 1, 2]) == [{"background"}, {"liver"}, {"spleen"}]


@pytest.mark.parametrize("ignored", [3, [3]])
def test_ignore_label(tmp_path, add_dataset, meaning, ignored):
    add_dataset(PLAIN | {"ignore": ignored})
    document = convert_nnunet(tmp_path)
    assert meaning(document, [0, 1, 3]) == [{"background"}, {"liver"}, {"background", "liver", "spleen"}]


class TestRegions:
    def test_kits(self, tmp_path, add_dataset, meaning):
        add_dataset(KITS, regions_class_order=[1, 3, 2])
        document = convert_nnunet(tmp_path)
        assert document["classes"] == ["background", "kidney only", "tumor", "masses only"]
        assert document["unions"] == {
            "kidney": ["kidney only", "tumor", "masses only"],
            "masses": ["tumor", "masses only"],
        }
        told = meaning(document, [0, 1, 2, 3])
        assert told == [{"background"}, {"kidney only"}, {"tumor"}, {"masses only"}]

    def test_list_of_one_value_and_ignore(self, tmp_path, add_dataset, meaning):
        labels = {"background": 0, "whole tumor": [1, 2, 3], "core": [2, 3], "enhancing": [3], "ignore": 4}
        add_dataset(labels, regions_class_order=[1, 2, 3])
        document = convert_nnunet(tmp_path)
        assert document["classes"] == ["background", "whole tumor only", "core only", "enhancing"]
        assert meaning(document, [3, 4]) == [{"enhancing"}, set(document["classes"])]

    def test_value_that_no_region_is_painted_with(self, tmp_path, add_dataset, meaning):
        labels = {"background": 0, "kidney": [1, 2, 3, 4], "masses": [2, 3, 4], "tumor": 2}
        add_dataset(labels, regions_class_order=[1, 3, 2])
        document = convert_nnunet(tmp_path)
        assert document["classes"] == ["background", "kidney only", "tumor", "masses only", "masses, value 4"]
        assert meaning(document, [4]) == [{"masses, value 4"}]

    @pytest.mark.parametrize("order", [[], [1, 3], [0, 1, 3, 2]])
    def test_order_must_fit(self, tmp_path, add_dataset, refuse, order):
        add_dataset(KITS, regions_class_order=order)
        assert f"`regions_class_order` has {len(order)} entries for 3 regions" in refuse("nnunet", tmp_path)


class TestChannels:
    def test_one_is_chosen(self, tmp_path, add_dataset, refuse):
        add_dataset(channels=("T2", "ADC"))
        both = convert_nnunet(tmp_path)
        assert both["channels"] == ["T2", "ADC"]
        files = ["imagesTr/case_2_0000.nii.gz", "imagesTr/case_2_0001.nii.gz"]
        assert both["datasets"][tmp_path.name]["training"][2]["image"] == files
        assert "no channel 2" in refuse("nnunet", tmp_path, channel=2)
        assert "no channel -1" in refuse("nnunet", tmp_path, channel=-1)
        for channel in (0, 1):
            entry = convert_nnunet(tmp_path, channel=channel)["datasets"][tmp_path.name]
            assert entry["training"][2]["image"] == f"imagesTr/case_2_000{channel}.nii.gz"

    def test_files_named_in_the_json(self, tmp_path, add, add_dataset, meaning, refuse):
        dataset = {
            f"c{n}": {"images": [f"any/{n}_a.nii.gz", add(f"any/{n}_b.nii.gz")], "label": f"any/{n}_gt.nii.gz"}
            for n in range(5)
        }
        for n in range(5):
            add(f"any/{n}_a.nii.gz")
            add(f"any/{n}_gt.nii.gz", [0, 1])
        add_dataset(channels=("T2", "ADC"), dataset=dataset)
        document = convert_nnunet(tmp_path, channel=1)
        items = document["datasets"][tmp_path.name]["training"]
        assert items[3] == {"image": str(tmp_path / "any/3_b.nii.gz"), "label": "any/3_gt.nii.gz", "subject": "c3"}
        assert meaning(document, [0, 1]) == [{"background"}, {"liver"}]
        dataset["c4"]["images"].pop()
        add_dataset(channels=("T2", "ADC"), dataset=dataset)
        assert "case 'c4' has 1 image(s), none of channel 1" in refuse("nnunet", tmp_path, channel=1)


class TestRefusals:
    def test_no_list(self, tmp_path, refuse):
        assert "no such folder" in refuse("nnunet", tmp_path / "nowhere")
        assert "no dataset.json" in refuse("nnunet", tmp_path)
        (tmp_path / "dataset.json").write_text("{")
        assert "is not JSON" in refuse("nnunet", tmp_path)
        (tmp_path / "dataset.json").write_text("{}")
        assert "`channel_names` is missing" in refuse("nnunet", tmp_path)

    @pytest.mark.parametrize("gone", ["imagesTr/case_1_0001.nii.gz", "labelsTr/case_1.nii.gz"])
    def test_missing_file(self, tmp_path, add_dataset, refuse, gone):
        add_dataset(channels=("T2", "ADC"))
        (tmp_path / gone).unlink()
        assert refuse("nnunet", tmp_path, channel=1).startswith(f"{tmp_path}: no file '{gone}'")

    def test_label_without_any_image(self, tmp_path, add_dataset, refuse):
        add_dataset()
        (tmp_path / "imagesTr/case_1_0000.nii.gz").unlink()
        assert "no file 'imagesTr/case_1_0000.nii.gz'" in refuse("nnunet", tmp_path)

    def test_no_images(self, tmp_path, add_json, add_dataset, refuse):
        add_json(channel_names={"0": "CT"}, labels=PLAIN, file_ending=".nii.gz")
        assert "no file like 'CASE_0000.nii.gz'" in refuse("nnunet", tmp_path)
        add_dataset(file_ending=".nrrd")
        assert "no file like 'CASE_0000.nrrd'" in refuse("nnunet", tmp_path)

    def test_decathlon(self, tmp_path, add_dataset, add_json, refuse):
        add_dataset(labels={"0": "background", "1": "liver"})
        assert "convert decathlon" in refuse("nnunet", tmp_path)
        add_json(modality={"0": "CT"}, labels={})
        assert "convert decathlon" in refuse("nnunet", tmp_path)

    @pytest.mark.parametrize(
        ("labels", "message"),
        [
            ({"liver": 1, "spleen": 2}, '"background": 0'),
            ({"background": 1, "liver": 0}, '"background": 0'),
            (PLAIN | {"left liver": 1}, "label value 1 has two names, 'liver' and 'left liver'"),
            (PLAIN | {"ignore": 2}, "the ignore label must be one value of its own"),
            (PLAIN | {"ignore": [3, 4]}, "the ignore label must be one value of its own"),
            (PLAIN | {"kidney": []}, "labels.kidney"),
            (PLAIN | {"kidney": -1}, "labels.kidney"),
            (PLAIN | {"kidney": True}, "labels.kidney"),
            ([0, 1], "`labels`"),
        ],
    )
    def test_labels(self, tmp_path, add_dataset, refuse, labels, message):
        add_dataset(labels)
        assert message in refuse("nnunet", tmp_path)
