"""Tests of reading a user's file: every mistake is told in one line, in words of the file."""

from __future__ import annotations

import copy

import pytest
import yaml
from helpers import refusal

from dcl_monai.datalist.schema import DatalistDocument, parse_document

DOCUMENT = {
    "classes": ["background", "RV", "MYO", "LV"],
    "unions": {"whole heart": ["RV", "MYO", "LV"]},
    "datasets": {
        "north": {"images": "{subject}.nii.gz", "labels": "{subject}_gt.nii.gz", "values": {0: "background", 5: "RV"}},
        "south": {"training": [{"image": "a.nii.gz", "label": "b.nii.gz", "subject": "s1", "phase": "ED"}]},
        "west": {"list": "dataset.json", "annotated": {"s*": ["RV"]}, "split": "training"},
    },
}
PYDANTIC = ("Input should", "a valid", "tuple", "dict", "list[", "str[", "type=", "Value error", "instance", "Extra in")


def parse(change) -> DatalistDocument:
    content = copy.deepcopy(DOCUMENT)
    change(content, content["datasets"])
    return parse_document(content, "my.yaml")


def fails(change) -> str:
    message = refusal(parse, change)
    assert message.startswith("my.yaml: ")
    assert message.endswith(". See docs/reference/datalist_file.md.")
    assert not any(word in message for word in PYDANTIC)
    return message


class TestForm:
    def test_good(self):
        document = parse(lambda content, datasets: None)
        assert document.split == [60, 20, 20]
        assert document.datasets["north"].values == {0: ["background"], 5: ["RV"]}
        assert document.datasets["west"].annotated == {"s*": ["RV"]}

    def test_a_list_of_annotated_names_is_for_all_images(self):
        document = parse(lambda content, datasets: datasets["north"].update(annotated=["RV"]))
        assert document.datasets["north"].annotated == {"*": ["RV"]}

    def test_label_values_of_json_are_texts(self):
        document = parse(lambda content, datasets: datasets["north"].update(values={"0": "background", "-1": ["RV"]}))
        assert document.datasets["north"].values == {0: ["background"], -1: ["RV"]}

    @pytest.mark.parametrize(
        ("change", "parts"),
        [
            (lambda c, d: c.pop("classes"), ["`classes` is missing"]),
            (lambda c, d: c.update(classes=None), ["`classes`: is left empty"]),
            (lambda c, d: c.update(classes="background"), ["`classes`: must be a list, like [a, b], got 'background'"]),
            (lambda c, d: c.update(classes=["background"]), ["`classes`: has too few entries"]),
            (lambda c, d: c.update(classes=["background", 1]), ["`classes[1]`: must be a text, got 1", "quotes"]),
            (lambda c, d: c.update(classes=["background", True]), ["`classes[1]`", "got True", "quotes"]),
            (lambda c, d: c.update(classes=["background", ""]), ["`classes[1]`: is empty"]),
            (lambda c, d: c.update(classes=["background", "R\nV"]), [r"`classes[1]`: 'R\nV' has a line break"]),
            (lambda c, d: c.update(classes=["background", " RV"]), ["' RV'", "begins or ends with a blank"]),
            (lambda c, d: c.update(classes=["background", "Unlabelled"]), ["'Unlabelled' cannot name"]),
            (lambda c, d: c["classes"].append("rv"), ["the name 'RV' is given twice", "case"]),
            (lambda c, d: c["unions"].update(LV=["RV", "MYO"]), ["the name 'LV' is given twice"]),
            (lambda c, d: c["unions"].update(x=["RV"]), ["union 'x' needs at least two"]),
            (lambda c, d: c["unions"].update(x=[]), ["union 'x' needs at least two"]),
            (lambda c, d: c["unions"].update(x=c["classes"]), ["union 'x' needs", "not all of them"]),
            (lambda c, d: c["unions"].update(x=["RV", "Myo"]), ["union 'x': 'Myo' is unknown", "do you mean 'MYO'?"]),
            (lambda c, d: c["unions"].update(x="RV"), ["`unions.x`: must be a list"]),
            (lambda c, d: c.update({"a\x00b": {}}), [r"`a\x00b`: the entry 'a\x00b' is unknown"]),
            (lambda c, d: c.update(dataset={}), ["`dataset`: the entry 'dataset' is unknown", "'datasets'?"]),
            (lambda c, d: c.update(datasets={}), ["`datasets`: has too few"]),
            (lambda c, d: c.update(datasets=[]), ["`datasets`: must hold entries, like {name: ...}"]),
            (lambda c, d: c.update(datasets={5: d["north"]}), ["`datasets[5]`: must be a text, got 5"]),
            (lambda c, d: c.update(datasets={"north": None}), ["`datasets.north`: is left empty"]),
            (lambda c, d: c.update(seed=-1), ["`seed`: must not be negative, got -1"]),
            (lambda c, d: c.update(seed=1.5), ["`seed`: must be a whole number, got 1.5"]),
            (lambda c, d: c.update(seed=True), ["`seed`: must be a whole number, got True"]),
            (lambda c, d: c.update(split=[60, 40]), ["`split`: must be three numbers", "got [60, 40]"]),
            (lambda c, d: c.update(split=[0, 0, 0]), ["`split`: must be three numbers"]),
            (lambda c, d: c.update(split=[60, -20, 20]), ["`split`: must be three numbers"]),
            (lambda c, d: c.update(split=[float("nan"), 1, 1]), ["`split`: must be three numbers"]),
            (lambda c, d: c.update(split="training"), ["`split`: must be three numbers", "got 'training'"]),
        ],
    )
    def test_mistakes_of_the_file(self, change, parts):
        message = fails(change)
        assert all(part in message for part in parts), message

    @pytest.mark.parametrize(
        ("change", "parts"),
        [
            (lambda d: d["north"].update(anotated=["RV"]), ["`datasets.north.anotated`", "do you mean 'annotated'?"]),
            (
                lambda d: d["north"].update(listing="a"),
                ["'listing' is unknown", "known are folder, images, labels, list"],
            ),
            (lambda d: d["north"].pop("images"), ["`datasets.north`: give either `images`"]),
            (lambda d: d["north"].update(list="a.json"), ["`datasets.north`: give either `images`"]),
            (lambda d: d["south"].update(labels="a"), ["`datasets.south`: `labels`", "needs `images`"]),
            (lambda d: d["north"].pop("labels"), ["`datasets.north`: `values`", "`labels`", "is missing"]),
            (lambda d: d["north"].update(images=""), ["`datasets.north.images`: is empty"]),
            (lambda d: d["north"].update(folder=7), ["`datasets.north.folder`: must be a text, got 7"]),
            (lambda d: d["north"].update(values={1.5: "RV"}), ["`datasets.north.values`", "1.5 is not a whole number"]),
            (lambda d: d["north"].update(values={True: "RV"}), ["label value True is not a whole number"]),
            (lambda d: d["north"].update(values={"RV": 1}), ["label value 'RV' is not a whole number"]),
            (lambda d: d["north"].update(values={1: "RV", "01": "LV"}), ["label value 1 is given twice"]),
            (lambda d: d["north"].update(values={1: 5}), ["`datasets.north.values[1][0]`: must be a text, got 5"]),
            (lambda d: d["north"].update(values={1: [2]}), ["`datasets.north.values[1][0]`: must be a text, got 2"]),
            (lambda d: d["north"].update(values={1: None}), ["`datasets.north.values[1]`: is left empty"]),
            (lambda d: d["north"].update(values=["RV"]), ["`datasets.north.values`: must hold entries"]),
            (lambda d: d["north"].update(annotated="RV"), ["`datasets.north.annotated`: must be a list", "got 'RV'"]),
            (lambda d: d["north"].update(annotated=[1]), ["`datasets.north.annotated[0]`: must be a text, got 1"]),
            (lambda d: d["north"].update(annotated={"s": "RV"}), ["`datasets.north.annotated.s`: must be a list"]),
            (lambda d: d["north"].update(split="train"), ["`datasets.north.split`: must be training", "'train'"]),
            (lambda d: d["north"].update(split=60), ["`datasets.north.split`: must be three numbers"]),
            (lambda d: d["north"].update(allow_missing_labels="yes"), ["must be true or false, got 'yes'"]),
            (lambda d: d["south"].update(training={}), ["`datasets.south.training`: must be a list"]),
            (lambda d: d["south"].update(training=[5]), ["`datasets.south.training[0]`: must hold entries", "got 5"]),
            (lambda d: d["south"].update(training=[{}]), ["`datasets.south.training[0].image` is missing"]),
            (lambda d: d["south"].update(training=[{"image": [5]}]), ["training[0].image[0]`: must be a text"]),
            (lambda d: d["south"]["training"][0].update(annotated=[1.0]), ["training[0].annotated[0]`", "got 1.0"]),
            (lambda d: d["south"]["training"][0].update(annotated=[True]), ["training[0].annotated[0]`", "got True"]),
            (lambda d: d["south"]["training"][0].update(annotated="RV"), ["training[0].annotated`: must be a list"]),
            (
                lambda d: d["south"]["training"][0].update(subject=1.5),
                ["training[0].subject`: must be a text, got 1.5"],
            ),
        ],
    )
    def test_mistakes_of_a_data_set(self, change, parts):
        message = fails(lambda content, datasets: change(datasets))
        assert all(part in message for part in parts), message

    @pytest.mark.parametrize(
        "key", ["anotated", "Annotated", "annotation", "lable", "labels", "Image", "subjekt", "subject_id"]
    )
    def test_note_that_is_a_misspelt_entry(self, key):
        """The image would count as annotated in full, or as one without a label."""
        message = fails(lambda content, datasets: datasets["south"]["training"][0].update({key: "RV"}))
        assert f"`datasets.south.training[0]`: {key!r} is unknown; do you mean" in message

    @pytest.mark.parametrize("key", ["values", "split", "case", "dataset", "drawn", "content", "further_labels"])
    def test_reserved_note(self, key):
        message = fails(lambda content, datasets: datasets["south"]["training"][0].update({key: "a"}))
        assert f"{key!r} cannot be used in the list" in message

    @pytest.mark.parametrize("key", ["phase", "group", "age", "stage", "sex", "site", "fold"])
    @pytest.mark.parametrize("value", ["ED", "", 3, 1.5, True, None])
    def test_notes_travel_along(self, key, value):
        document = parse(lambda content, datasets: datasets["south"]["training"][0].update({key: value}))
        assert document.datasets["south"].training[0].model_dump()[key] == value

    @pytest.mark.parametrize("value", [["a"], {"a": 1}, "two\nlines"])
    def test_odd_notes(self, value):
        message = fails(lambda content, datasets: datasets["south"]["training"][0].update(comment=value))
        assert "'comment' must be a text in one line, or a number" in message

    def test_numbered_subject(self):
        document = parse(lambda content, datasets: datasets["south"]["training"][0].update(subject=7))
        assert document.datasets["south"].training[0].subject == "7"


@pytest.mark.parametrize("item", ["{image: a.nii.gz, label b.nii.gz}", "{image: a.nii.gz, label:b.nii.gz}"])
def test_forgotten_colon(item):
    """The image was taken for one without a label."""
    message = fails(lambda content, datasets: datasets["south"].update(training=[yaml.safe_load(item)]))
    assert "b.nii.gz' has no value; a colon with a blank after it may be missing" in message


def test_thousands_of_classes():
    message = fails(lambda content, datasets: content.update(classes=[f"c{j}" for j in range(2000)]))
    assert "`classes`: has more than 256 entries" in message
