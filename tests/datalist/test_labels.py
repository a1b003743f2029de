"""Tests of what label values mean: candidates hold the true class, and exclude what the annotation excludes."""

from __future__ import annotations

import random
from itertools import chain

import nibabel as nib
import numpy as np
import pytest
from helpers import refusal, voxel_sets
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from monai.data import MetaTensor

from dcl_monai.candidates import from_bits
from dcl_monai.datalist import load_datalist
from dcl_monai.datalist.items import annotation_table
from dcl_monai.datalist.labels import LabelMeaning
from dcl_monai.transforms import LoadCandidatesd
from dcl_monai.utils import DataError

CLASSES = ["background", "RV", "MYO", "LV"]
UNIONS = {"whole heart": ["RV", "MYO", "LV"], "LV with wall": ["MYO", "LV"]}
ALL = {*CLASSES}
ITEM = {"image": "a.nii.gz", "label": "a_gt.nii.gz", "subject": "p1", "case": "images/a"}


def table(values, drawn=None, **item) -> dict[int, set[str]]:
    """Names of the candidates of every label value of one image, given ``annotated`` of the data set."""
    names = {value: [meant] if isinstance(meant, str) else meant for value, meant in values.items()}
    by_name = {"*": drawn} if isinstance(drawn, list) else drawn
    (result,) = LabelMeaning(CLASSES, UNIONS, names, by_name, "my.yaml: data set 'north'").annotate([ITEM | item])
    return {v: {CLASSES[j] for j in from_bits(bits)} for v, bits in annotation_table(result, len(CLASSES)).items()}


def fails(*args, **kwargs) -> str:
    message = refusal(table, *args, **kwargs)
    assert message.startswith("my.yaml: data set 'north'")
    return message


FULL = {0: "background", 1: "RV", 2: "MYO", 3: "LV"}
FINER = {0: "background", 1: "RV", 2: "LV with wall"}
STROKES = {0: "unlabelled", 1: "background", 2: "RV"}
HEART, NOT_RV, BACKGROUND = {"RV", "MYO", "LV"}, ALL - {"RV"}, {"background"}
TABLES = {
    "full": (FULL, None, {0: BACKGROUND, 1: {"RV"}, 2: {"MYO"}, 3: {"LV"}}),
    "one class": ({0: "background", 5: "RV"}, None, {0: NOT_RV, 5: {"RV"}}),
    "one class, others not to be trusted": (FULL, ["RV"], {0: NOT_RV, 1: {"RV"}, 2: NOT_RV, 3: NOT_RV}),
    "union": ({0: "background", 1: "whole heart"}, None, {0: BACKGROUND, 1: HEART}),
    "union of finer values": (
        FULL | {2: "LV with wall"},
        ["whole heart"],
        {0: BACKGROUND} | dict.fromkeys((1, 2, 3), HEART),
    ),
    "class within a union": ({0: "background", 1: "RV", 2: "whole heart"}, None, {0: BACKGROUND, 1: {"RV"}, 2: HEART}),
    "list": ({0: ["background", "LV"], 1: "RV"}, None, {0: NOT_RV, 1: {"RV"}}),
    "scribbles": (STROKES | {3: "MYO", 4: "LV"}, None, {0: ALL, 1: BACKGROUND, 2: {"RV"}, 3: {"MYO"}, 4: {"LV"}}),
    "scribbles of two classes": (STROKES, ["background", "RV"], {0: ALL, 1: BACKGROUND, 2: {"RV"}}),
    "strokes of background alone": ({0: "unlabelled", 1: "background"}, None, {0: ALL, 1: BACKGROUND}),
    "nothing annotated": ({0: "background", 1: "RV"}, [], {0: ALL, 1: ALL}),
}


@pytest.mark.parametrize(("values", "annotated", "expected"), TABLES.values(), ids=TABLES)
def test_tables(values, annotated, expected):
    assert table(values, annotated) == expected


class TestWhoIsAnnotated:
    VALUES, RV = FULL, {0: NOT_RV, 1: {"RV"}, 2: NOT_RV, 3: NOT_RV}

    @pytest.mark.parametrize("pattern", ["p1", "p?", "*1", "images/a", "images/*"])
    def test_by_subject_or_case(self, pattern):
        assert table(self.VALUES, {pattern: ["RV"]}) == self.RV

    @pytest.mark.parametrize("order", [1, -1])
    @pytest.mark.parametrize("patterns", [["p1", "p?"], ["p1", "*"], ["images/a", "images/*"], ["images/?", "p*"]])
    def test_most_letters_count(self, patterns, order):
        """In whatever order the entries are: YAML knows none, and tools sort them."""
        drawn = dict([(patterns[0], ["RV"]), (patterns[1], ["LV"])][::order])
        meaning = LabelMeaning(CLASSES, UNIONS, {v: [name] for v, name in self.VALUES.items()}, drawn, "here")
        other = ITEM | {"subject": "p2", "case": "images/bb"}
        assert [item["annotated"] for item in meaning.annotate([ITEM, other])] == [[1], [3]]

    def test_entry_for_all_others_may_be_spare(self):
        assert table(self.VALUES, {"p1": ["RV"], "*": ["LV"]}) == self.RV

    def test_entry_that_another_hides(self):
        assert "no image is left for the entry 'p?'" in fails(self.VALUES, {"p?": ["LV"], "p1": ["RV"]})

    def test_misspelt_entry(self):
        assert "no image is left for the entry 'p2'" in fails(self.VALUES, {"p2": ["LV"], "*": ["RV"]})

    def test_no_entry(self):
        message = fails(self.VALUES, {"p2": ["LV"]})
        assert "no entry fits subject 'p1' (case 'images/a')" in message
        assert "'*'" in message

    def test_brackets_are_letters(self):
        assert table(self.VALUES, {"p[1]": ["RV"]}, subject="p[1]") == self.RV

    @pytest.mark.parametrize("own", [["RV"], [1], ["RV", 1]])
    def test_own_entry_comes_first(self, own):
        assert table(self.VALUES, ["LV"], annotated=own) == self.RV

    @pytest.mark.parametrize("own", [4, 255, -1])
    def test_unknown_label_value(self, own):
        message = fails({**self.VALUES, 255: "unlabelled"}, annotated=[own])
        assert f"no label value {own}" in message
        assert "[0, 1, 2, 3]" in message

    def test_annotated_without_label(self):
        meaning = LabelMeaning(CLASSES, UNIONS, {0: ["background"], 1: ["RV"]}, None, "here")
        image = {"image": "a.nii.gz", "subject": "p1", "case": "a"}
        assert meaning.annotate([image]) == [image]
        with pytest.raises(DataError, match=r"a.nii.gz is `annotated` but has no label"):
            meaning.annotate([image | {"annotated": ["RV"]}])


@pytest.mark.parametrize(
    ("values", "annotated", "parts"),
    [
        ({0: "background", 1: "Rv"}, None, ["value 1", "'Rv' is unknown", "whole heart", "do you mean 'RV'?"]),
        ({0: "background", 1: "RV"}, ["whole hart"], ["`annotated`: 'whole hart' is unknown", "mean 'whole heart'?"]),
        ({0: "background", 1: []}, None, ["value 1", "no name is given"]),
        ({0: "background", 1: ["RV", "unlabelled"]}, None, ["value 1", "something else"]),
        ({0: "background", 1: ["background", "whole heart"]}, None, ["value 1", "every class", "Write unlabelled"]),
        ({0: "unlabelled"}, None, ["no value stands for a class"]),
        ({1: "RV"}, None, ["no value stands for background", "0: background"]),
        ({0: "background"}, None, ["no label value can mean RV, MYO, LV"]),
        ({0: "background", 1: "RV"}, ["LV"], ["'LV' is annotated, but no label value"]),
        ({0: "background", 1: "whole heart"}, ["RV"], ["'RV' cannot be distinguished", "label value 1", "RV, MYO, LV"]),
        # MYO and LV would be called background in silence
        ({0: "background", 1: "RV"}, ["background", "RV"], ["can mean MYO, LV", "without background"]),
        ({0: "background", 1: "RV"}, ["whole heart"], ["no label value can mean MYO, LV"]),
        ({0: "background", 1: "RV", 2: "MYO"}, ["background"], ["no label value can mean LV"]),
        ({0: "unlabelled", 1: "RV"}, ["unlabelled"], ["`annotated`: 'unlabelled' is unknown"]),
        ({}, None, ["`values` is missing", "values: {0: background, 1: RV}"]),
    ],
)
def test_refused(values, annotated, parts):
    message = fails(values, annotated)
    assert all(part in message for part in parts), message


# --- Any description, against a reference that goes by the words of the documentation, voxel by voxel. ---


@st.composite
def descriptions(draw):
    """Classes, unions, values and annotated names, some of which contradict each other."""
    size = draw(st.integers(2, 6))
    classes = ["background", *draw(st.permutations(["RV", "MYO", "LV", "RA", "aorta"]))][:size]
    unions = {}
    if size > 2:
        subsets = st.lists(st.sampled_from(classes), min_size=2, max_size=size - 1, unique=True)
        unions = draw(st.dictionaries(st.sampled_from(["U", "V"]), subsets))
    names = st.sampled_from([*classes, *unions])
    meanings = st.one_of(names, names, names, st.lists(names, min_size=1, max_size=3), st.just("unlabelled"))
    values = draw(st.dictionaries(st.integers(-3, 300), meanings, min_size=1, max_size=6))
    if draw(st.integers(0, 3)):
        values[draw(st.integers(-3, 300))] = "background"
    meant = sorted({name for name in values.values() if isinstance(name, str)} - {"unlabelled"} - {"background"})
    drawn = st.lists(st.sampled_from(meant), max_size=3) if meant else st.just([])
    annotated = draw(st.one_of(st.none(), drawn, drawn, st.lists(names, max_size=3)))
    return classes, unions, values, annotated


class Reference:
    """What an annotator who follows a description may write on a voxel of a given class."""

    def __init__(self, classes, unions, values, annotated):
        def members(names):
            names = [names] if isinstance(names, str) else names
            return set(chain.from_iterable(unions.get(name, [name]) for name in names))

        self.classes = classes
        self.blank = [value for value, names in values.items() if names == "unlabelled"]
        self.meaning = {value: members(names) for value, names in values.items() if names != "unlabelled"}
        self.annotated = None if annotated is None else [members(name) for name in annotated]
        self.structures = [meant for meant in self.meaning.values() if "background" not in meant]

    def may_be_written(self, name):
        if self.annotated is not None:
            written = [
                value
                for value, meant in self.meaning.items()
                if all((name in drawn) == (meant <= drawn) for drawn in self.annotated)
            ]
        else:
            drawn = any(name in meant for meant in self.structures)
            written = [
                value
                for value, meant in self.meaning.items()
                if name in meant or ("background" in meant and self.structures and not drawn)
            ]
        return [*written, *self.blank]

    def is_possible(self):
        """Whether the description fits together: everything named can be told apart, and every class has its place."""
        meanings = list(self.meaning.values())
        if not meanings or any(not meant or meant == {*self.classes} for meant in meanings):
            return False
        for drawn in self.annotated or ():
            if any(meant & drawn and meant - drawn for meant in meanings) or not any(m <= drawn for m in meanings):
                return False
        for name in self.classes:
            named = any(name in meant for meant in meanings)
            left = any("background" in self.meaning[v] for v in self.may_be_written(name) if v in self.meaning)
            if not (named or left or self.blank):
                return False
        # the value left where nobody drew must be known
        return bool(self.blank) or any("background" in meant for meant in meanings)

    def overlaps(self):
        return any(a & b and a != b for a in self.meaning.values() for b in self.meaning.values())


def load(tmp_path, classes, unions, values, annotated, labels, how="data set"):
    """Candidate sets, by name, of voxels with these labels, by way of files."""
    nib.save(nib.Nifti1Image(np.array(labels, np.int16).reshape(-1, 1, 1), np.eye(4)), tmp_path / "a_gt.nii")
    (tmp_path / "a.nii").touch()
    item = {"image": "a.nii", "label": "a_gt.nii", "subject": "p1"}
    entry = {"values": values, "training": [item], "split": "training"}
    if annotated is not None and how == "image":
        item["annotated"] = annotated
    elif annotated is not None:
        entry["annotated"] = {"p*": annotated} if how == "subject" else annotated
    datalist = load_datalist({"classes": classes, "unions": unions, "datasets": {"north": entry}}, tmp_path)
    image = MetaTensor(np.zeros((1, len(labels), 1, 1), np.float32), affine=np.eye(4))
    label = LoadCandidatesd("label", len(classes))(datalist["training"][0] | {"image": image})["label"]
    return [{classes[j] for j in members} for members in voxel_sets(label)]


@given(description=descriptions(), how=st.sampled_from(["data set", "subject", "image"]))
@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_candidates_of_any_description(tmp_path, description, how):
    reference = Reference(*description)
    event("possible" if reference.is_possible() else "impossible")
    truth = [(name, value) for name in reference.classes for value in reference.may_be_written(name)]
    if not reference.is_possible():
        with pytest.raises(DataError, match="data set 'north'"):
            load(tmp_path, *description, [value for _, value in truth] or [0], how)
        return
    loaded = load(tmp_path, *description, [value for _, value in truth], how)
    for (name, value), candidates in zip(truth, loaded, strict=True):
        assert name in candidates  # never a wrong mapping
        allowed = {other for other in reference.classes if value in reference.may_be_written(other)}
        assert allowed <= candidates
        if not reference.overlaps():  # overlapping meanings may tell more than the sets hold, but never less than this
            assert allowed == candidates


@given(description=descriptions(), seed=st.integers(0, 2**16))
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_numbers_and_orders_mean_nothing(tmp_path, description, seed):
    """Other label numbers, another order of classes, values and names: the same sets, by name."""
    classes, unions, values, annotated = description
    assume(Reference(*description).is_possible())
    rng = random.Random(seed)
    labels = rng.choices(list(values), k=12)
    before = load(tmp_path, classes, unions, values, annotated, labels)
    number = dict(zip(values, rng.sample(range(1000), len(values)), strict=True))
    shuffled = [classes[0], *rng.sample(classes[1:], len(classes) - 1)]
    turned = {number[value]: values[value] for value in rng.sample(list(values), len(values))}
    drawn = None if annotated is None else rng.sample(annotated, len(annotated))
    assert load(tmp_path, shuffled, unions, turned, drawn, [number[value] for value in labels]) == before
