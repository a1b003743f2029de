"""Tests of datalists: from a user's file to items, and to disk and back."""

from __future__ import annotations

import json
import os
import shutil
from functools import partial
from pathlib import Path

import pytest
import yaml
from helpers import refusal

from dcl_monai.datalist import Datalist, Item, datalist_hash, load_datalist, simulate_datalist, write_datalist
from dcl_monai.datalist.items import annotations_of, decided_classes, shown_classes
from dcl_monai.datalist.splits import SPLITS

HEARTS = """
classes: [background, RV, MYO, LV]
unions: {whole heart: [RV, MYO, LV]}
datasets:
  north:
    folder: north
    images: "{subject}/{phase}.nii.gz"
    labels: "{subject}/{phase}_gt.nii.gz"
    values: {0: background, 5: RV}
  south:
    list: south/dataset.json
    values: {0: background, 1: MYO, 255: unlabelled}
    split: training
  east:
    folder: east
    values: {0: background, 1: whole heart, 2: [MYO, LV]}
    annotated: [whole heart]
    training: [{image: a.mha, label: a_gt.mha, subject: 7, site: 3}]
    validation: [{image: b.mha, label: b_gt.mha}, c.mha]
    test: [{image: d.mha, label: d_gt.mha, annotated: [1]}]
"""


def touch(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()


def make_hearts(root: Path) -> Path:
    """Three hospitals, with empty files: nothing is read when a list is made."""
    touch(root, *(f"north/p{i}/{f}{end}.nii.gz" for i in range(10) for f in ("ED", "ES") for end in ("", "_gt")))
    touch(root, *(f"south/{name}.nii" for name in ("a", "a_gt", "b", "b_gt")))
    touch(root, *(f"east/{name}{end}.mha" for name in "abcd" for end in ("", "_gt")))
    listed = [{"image": f"./{name}.nii", "label": f"./{name}_gt.nii"} for name in "ab"]
    (root / "south/dataset.json").write_text(json.dumps({"training": listed, "test": []}))
    (root / "hearts.yaml").write_text(HEARTS)
    return root / "hearts.yaml"


@pytest.fixture
def hearts(tmp_path) -> Path:
    return make_hearts(tmp_path)


def by_case(datalist) -> dict[str, dict]:
    return {item["case"]: item for split in SPLITS for item in datalist[split]}


fails = partial(refusal, load_datalist)


class TestHospitals:
    def test_classes_and_unions(self, hearts):
        datalist = load_datalist(hearts)
        assert datalist["classes"] == ["background", "RV", "MYO", "LV"]
        assert datalist["unions"] == {"whole heart": [1, 2, 3]}

    def test_splits(self, hearts):
        datalist = load_datalist(str(hearts))
        count = {
            (split, name): len({item["subject"] for item in datalist[split] if item["dataset"] == name})
            for split in SPLITS
            for name in ("north", "south", "east")
        }
        assert [count[split, "north"] for split in SPLITS] == [6, 2, 2]
        assert [count[split, "south"] for split in SPLITS] == [2, 0, 0]
        assert [count[split, "east"] for split in SPLITS] == [1, 2, 1]
        subjects = [{item["subject"] for item in datalist[split]} for split in SPLITS]
        assert sum(map(len, subjects)) == len(set.union(*subjects))

    def test_items(self, hearts):
        root, items = hearts.parent, by_case(load_datalist(hearts))
        assert items["p3/ED"] == {
            "image": str(root / "north/p3/ED.nii.gz"),
            "label": str(root / "north/p3/ED_gt.nii.gz"),
            "subject": "north/p3",
            "phase": "ED",
            "dataset": "north",
            "case": "p3/ED",
            "values": {0: [0], 5: [1]},
            "annotated": [1],
        }
        assert items["b"]["dataset"] == "east"
        assert items["d"]["annotated"] == items["b"]["annotated"] == [[1, 2, 3]]
        assert items["d"]["values"] == {0: [0], 1: [1, 2, 3], 2: [2, 3]}
        assert {key: items["c"][key] for key in ("subject", "case")} == {"subject": "east/c", "case": "c"}
        assert "values" not in items["c"]
        south = [item for item in load_datalist(hearts)["training"] if item["dataset"] == "south"]
        assert {tuple(item["unlabelled"]) for item in south} == {(255,)}
        ((east,),) = [[i for i in load_datalist(hearts)["training"] if i["dataset"] == "east"]]
        assert (east["subject"], east["site"]) == ("east/7", 3)

    def test_classes_decided_and_shown(self, hearts):
        items = by_case(load_datalist(hearts))
        assert decided_classes(items["p3/ED"], 4) == shown_classes(items["p3/ED"], 4) == (1,)
        assert decided_classes(items["b"], 4) == (0,)  # a union decides none of its members
        assert decided_classes(items["c"], 4) == shown_classes(items["c"], 4) == ()

    def test_one_data_set_keeps_its_subjects(self, hearts):
        content = yaml.safe_load(HEARTS)
        content["datasets"] = {"north": content["datasets"]["north"]}
        datalist = load_datalist(content, hearts.parent)
        assert {item["subject"] for split in SPLITS for item in datalist[split]} == {f"p{i}" for i in range(10)}

    def test_order_of_the_data_sets_means_nothing(self, hearts):
        content = yaml.safe_load(HEARTS)
        content["datasets"] = dict(reversed(content["datasets"].items()))
        turned = load_datalist(content, hearts.parent)
        assert datalist_hash(turned) == datalist_hash(load_datalist(hearts))

    def test_seed(self, hearts):
        content = yaml.safe_load(HEARTS)
        hashes = {datalist_hash(load_datalist(content | {"seed": seed}, hearts.parent)) for seed in (0, 0, 1)}
        assert len(hashes) == 2

    def test_too_few_subjects(self, hearts):
        hearts.write_text(HEARTS.replace("    split: training\n", ""))
        message = fails(hearts)
        assert message.startswith(f"{hearts}: data set 'south': 2 subject(s) leave none for")
        assert "[60, 20, 20]" in message

    @pytest.mark.parametrize(
        ("old", "new", "parts"),
        [
            ("5: RV", "5: Rv", ["data set 'north', `values`, value 5: 'Rv' is unknown", "do you mean 'RV'?"]),
            ("annotated: [whole heart]", "anotated: [RV]", ["`datasets.east.anotated`", "'annotated'?"]),
            ("annotated: [1]", "annotated: [3]", ["data set 'east'", "d.mha", "no label value 3", "[0, 1, 2]"]),
            ("annotated: [1]", "anotated: [1]", ["`datasets.east.test[0]`: 'anotated' is unknown"]),
            ("folder: north", "folder: nroth", ["data set 'north', `folder`", "nroth is not a folder"]),
            ("image: a.mha", "image: x.mha", ["x.mha: no such file", "data set 'east' lists it as image"]),
            ("list: south/dataset.json", "list: south/lost.json", ["lost.json: cannot be read"]),
        ],
    )
    def test_mistakes(self, hearts, old, new, parts):
        hearts.write_text(HEARTS.replace(old, new))
        message = fails(hearts)
        assert str(hearts.parent) in message
        assert all(part in message for part in parts), message


class TestTwoAnnotations:
    def make(self, root, **second):
        touch(root, "a.nii", "r1.nii", "r2.nii")
        first = {"values": {0: "background", 1: "RV"}, "training": [{"image": "a.nii", "label": "r1.nii"}]}
        other = {"values": {0: "background", 3: "LV"}, "training": [{"image": "a.nii", "label": "r2.nii"}]}
        entries = {"one": first | {"split": "training"}, "two": other | {"split": "training"} | second}
        return {"classes": ["background", "RV", "LV"], "datasets": entries}

    def test_are_one_item(self, tmp_path):
        datalist = load_datalist(self.make(tmp_path), tmp_path)
        (item,) = datalist["training"]
        assert [annotation["label"] for annotation in annotations_of(item)] == [
            str(tmp_path / "r1.nii"),
            str(tmp_path / "r2.nii"),
        ]
        assert decided_classes(item, 3) == (0, 1, 2)  # what neither of the two readers drew is background

    def test_of_one_list(self, tmp_path):
        content = self.make(tmp_path)
        content["datasets"].pop("two")
        content["datasets"]["one"]["training"].append({"image": "a.nii", "label": "r2.nii"})
        assert len(annotations_of(load_datalist(content, tmp_path)["training"][0])) == 2

    def test_in_two_splits(self, tmp_path):
        message = fails(self.make(tmp_path, split="test"), tmp_path)
        assert f"{tmp_path / 'a.nii'}: is in two splits, training and test" in message

    def test_listed_twice(self, tmp_path):
        content = self.make(tmp_path)
        content["datasets"]["one"]["training"] *= 2
        assert f"{tmp_path / 'a.nii'}: is listed twice with the same label" in fails(content, tmp_path)

    def test_survive_the_disk(self, tmp_path):
        datalist = load_datalist(self.make(tmp_path), tmp_path)
        write_datalist(datalist, tmp_path / "list.json")
        assert load_datalist(tmp_path / "list.json") == datalist


class TestDecathlon:
    LIST = {
        "name": "Hippocampus",
        "modality": {"0": "MRI"},
        "labels": {"0": "background", "1": "Anterior", "2": "Posterior"},
        "numTraining": 10,
        "training": [{"image": f"./imagesTr/h{i}.nii.gz", "label": f"./labelsTr/h{i}.nii.gz"} for i in range(10)],
        "test": ["./imagesTs/h99.nii.gz"],
    }

    def load(self, root, **change):
        touch(root, *(f"{folder}/h{i}.nii.gz" for folder in ("imagesTr", "labelsTr") for i in range(10)))
        (root / "dataset.json").write_text(json.dumps(self.LIST | change))
        return load_datalist(root / "dataset.json")

    def test_as_it_is(self, tmp_path):
        datalist = self.load(tmp_path)
        assert datalist["classes"] == ["background", "Anterior", "Posterior"]
        assert [len(datalist[split]) for split in SPLITS] == [6, 2, 2]
        item = datalist["training"][0]
        assert item["dataset"] == "Hippocampus"
        assert item["subject"] == item["case"]
        assert item["case"].startswith("imagesTr/h")
        assert (item["values"], item["annotated"]) == ({0: [0], 1: [1], 2: [2]}, [1, 2])

    @pytest.mark.parametrize("annotated", [["Posterior"], [2]])
    def test_annotated_in_items(self, tmp_path, annotated):
        items = [dict(item) for item in self.LIST["training"]]
        items[4]["annotated"] = annotated
        found = by_case(self.load(tmp_path, training=items))
        assert [found[f"imagesTr/h{i}"]["annotated"] for i in (3, 4)] == [[1, 2], [2]]

    def test_annotated_for_all(self, tmp_path):
        assert {tuple(i["annotated"]) for i in self.load(tmp_path, annotated=["Anterior"])["training"]} == {(1,)}

    def test_classes_of_ones_own(self, tmp_path):
        datalist = self.load(tmp_path, classes=["background", "Posterior", "Anterior"], split=[5, 5, 0])
        assert datalist["training"][0]["values"] == {0: [0], 1: [2], 2: [1]}
        assert [len(datalist[split]) for split in SPLITS] == [5, 5, 0]

    def test_classes_without_labels(self, tmp_path):
        datalist = self.load(tmp_path, labels=None, classes=["background", "A", "B"])
        assert datalist["training"][0]["values"] == {0: [0], 1: [1], 2: [2]}

    @pytest.mark.parametrize(
        ("change", "part"),
        [
            ({"labels": None}, "`labels`, like"),
            ({"labels": None, "classes": "background"}, "`labels`, like"),
            ({"labels": {"background": 0}}, "convert nnunet"),
            ({"labels": {"0": "background", "1": "a", "2": "A"}}, "'a' is given twice"),
            ({"anotated": ["Anterior"]}, "do you mean 'annotated'?"),
            ({"classes": ["background", "Anterior"]}, "'Posterior' is unknown"),
        ],
    )
    def test_mistakes(self, tmp_path, change, part):
        message = refusal(self.load, tmp_path, **change)
        assert message.startswith(str(tmp_path / "dataset.json"))
        assert part in message


class TestDisk:
    @pytest.mark.parametrize("place", ["hearts.json", "new/folder/list.json"])
    def test_round_trip(self, hearts, place):
        datalist = load_datalist(hearts)
        digest = write_datalist(datalist, hearts.parent / place)
        again = load_datalist(hearts.parent / place)
        assert again == datalist
        assert digest == datalist_hash(again) == datalist_hash(datalist)

    def test_class_names_on_disk(self, hearts):
        write_datalist(load_datalist(hearts), hearts.parent / "list.json")
        content = json.loads((hearts.parent / "list.json").read_text())
        (item,) = [item for item in content["test"] if item["dataset"] == "east"]
        assert item["image"] == "east/d.mha"
        assert item["annotated"] == [["RV", "MYO", "LV"]]
        assert item["values"]["2"] == ["MYO", "LV"]

    @pytest.mark.parametrize("annotation", ["partial", "single"])
    def test_simulated(self, tmp_path, annotation):
        touch(tmp_path, *(f"{i}{end}.nii" for i in range(20) for end in ("", "_gt")))
        entry = {"images": "{subject}.nii", "labels": "{subject}_gt.nii", "values": {0: "background", 1: "a", 2: "b"}}
        source = load_datalist({"classes": ["background", "a", "b"], "datasets": {"x": entry}}, tmp_path)
        datalist = simulate_datalist(source, annotation=annotation)
        assert write_datalist(datalist, tmp_path / "list.json") != datalist_hash(source)
        assert load_datalist(tmp_path / "list.json") == datalist

    ITEM = [{"annotated": ["LV"]}, {"annotated": ["nobody"]}, {"annotated": 5}, {"values": {"x": ["LV"]}}, {"image": 5}]
    ITEM += [{"subject": "p9"}, {"further_labels": "x"}]
    TOP = [{"training": None}, {"hash": None}, {"classes": None}, {"unions": []}, {"unions": {"x": ["nobody"]}}]
    TOP += [{"datalist_version": 2}, {"datalist_version": []}]

    @pytest.mark.parametrize(
        "change",
        [
            *(lambda content, more=more: content["training"][0].update(more) for more in ITEM),
            *(lambda content, more=more: content.update(more) for more in TOP),
            *(lambda content, key=key: content["training"][0].pop(key) for key in ("label", "image", "subject")),
            *(lambda content, key=key: content.pop(key) for key in ("test", "hash")),
            lambda content: content["training"].pop(),
            lambda content: content["test"].append(content["training"].pop()),
            lambda content: content["training"][0]["values"].update({"9": ["LV"]}),
            lambda content: content["training"].append(None),
            lambda content: content["classes"].reverse(),
        ],
    )
    def test_changed_by_hand(self, hearts, change):
        path = hearts.parent / "list.json"
        write_datalist(load_datalist(hearts), path)
        content = json.loads(path.read_text())
        change(content)
        path.write_text(json.dumps(content))
        message = fails(path)
        assert message.startswith(f"{path}: ")
        assert "again" in message


class TestHash:
    def test_is_sha256(self, hearts):
        assert len(bytes.fromhex(datalist_hash(load_datalist(hearts)))) == 32

    def test_does_not_depend_on_where_the_data_lies(self, hearts, tmp_path_factory):
        other = make_hearts(tmp_path_factory.mktemp("elsewhere") / "deep")
        assert datalist_hash(load_datalist(other)) == datalist_hash(load_datalist(hearts))

    def test_moves_with_the_data(self, hearts, tmp_path_factory):
        write_datalist(load_datalist(hearts), hearts.parent / "list.json")
        moved = tmp_path_factory.mktemp("elsewhere") / "moved"
        shutil.copytree(hearts.parent, moved)
        datalist = load_datalist(moved / "list.json")
        assert all(os.path.exists(item["image"]) for item in datalist["training"])
        assert str(moved) in datalist["training"][0]["image"]

    def test_is_the_same_in_every_version(self):
        """Papers name it, and it stands in files of datalists: it was computed before items had a type."""
        values = {0: [0], 1: [1], 2: [2], 3: [3]}
        strokes = {"label": "b_lv.nii", "values": {3: [3]}, "unlabelled": [255], "annotated": [3]}
        first: Item = {"image": "a.nii", "subject": "a", "dataset": "north", "case": "a", "label": "a_gt.nii"}
        second: Item = {"image": "b.nii", "subject": "b", "dataset": "north", "case": "b", "label": "b_gt.nii"}
        second |= {"values": {0: [0], 5: [1, 2, 3]}, "annotated": [[1, 2, 3]]}
        datalist: Datalist = {
            "classes": ["background", "RV", "MYO", "LV"],
            "unions": {"whole heart": [1, 2, 3]},
            "training": [
                first | {"values": values, "annotated": [2], "drawn": [0, 1, 2, 3], "phase": "ED"},
                second | {"further_labels": [strokes | {"content": "0123456789abcdef"}]},
                {"image": "c.nii", "subject": "c", "dataset": "south", "case": "c"},
            ],
            "validation": [{"image": "d.nii", "subject": "d", "label": "d_gt.nii"}],
            "test": [],
        }
        assert datalist_hash(datalist) == "ede1bbf4cf13c858296684b2b11a67964816abab9c064aa71681d8b5e5dfd4ed"

    def test_does_not_depend_on_any_order(self, hearts):
        datalist = load_datalist(hearts)
        before = datalist_hash(datalist)
        for split in SPLITS:
            datalist[split] = [dict(reversed(item.items())) for item in reversed(datalist[split])]
            for item in annotations_of({"further_labels": [i for i in datalist[split] if "values" in i]}):
                item["values"] = dict(reversed(item["values"].items()))
                item["annotated"] = item["annotated"][::-1]
        assert datalist_hash(datalist) == before

    CHANGES = [{"annotated": [1]}, {"annotated": [1, [2, 3]]}, {"annotated": []}, {"unlabelled": [4]}, {"subject": "t"}]
    CHANGES += [{"values": {0: [0], 1: [1], 2: [3], 3: [2]}}, {"case": "x"}, {"dataset": "x"}, {"content": "0123"}]
    CHANGES += [{"further_labels": [{"label": "b", "values": {0: [0], 1: [1]}, "annotated": [1]}]}, None]

    @pytest.mark.parametrize("change", CHANGES)
    def test_every_difference_shows(self, change):
        def datalist():
            values = {0: [0], 1: [1], 2: [2], 3: [3]}
            item = {"image": "a", "label": "b", "subject": "s", "case": "c", "dataset": "d", "values": values}
            items = {split: [item | {"subject": split, "annotated": [1, 2, 3]}] for split in SPLITS}
            return {"classes": ["background", "RV", "MYO", "LV"], "unions": {}, **items}

        changed = datalist()
        changed["training"][0].update(change or {})
        if change is None:
            del changed["training"][0]["label"]
        assert datalist_hash(changed) != datalist_hash(datalist())
        assert datalist_hash(datalist() | {"classes": ["background", "RV", "LV", "MYO"]}) != datalist_hash(datalist())
        assert datalist_hash(datalist() | {"test": []}) != datalist_hash(datalist())
