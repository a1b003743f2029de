"""Fuzzing of users' files: whatever they hold, they are read or refused in one line, never with a traceback."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from dcl_monai.datalist import datalist_hash, load_datalist, write_datalist
from dcl_monai.datalist.items import annotation_table, annotations_of
from dcl_monai.datalist.splits import SPLITS
from dcl_monai.utils import DataError

pytestmark = pytest.mark.slow

FUZZ = settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck))

HEARTS = {
    "classes": ["background", "RV", "MYO", "LV"],
    "unions": {"whole heart": ["RV", "MYO", "LV"]},
    "split": [60, 20, 20],
    "seed": 0,
    "datasets": {
        "north": {
            "folder": "north",
            "images": "{subject}/{phase}.nii.gz",
            "labels": "{subject}/{phase}_gt.nii.gz",
            "values": {0: "background", 5: "RV", 255: "unlabelled"},
            "annotated": {"p0": ["RV"], "*": ["RV"]},
            "allow_missing_labels": True,
        },
        "south": {"list": "south/dataset.json", "values": {0: "background", 1: "MYO", 2: ["RV", "LV"]}},
        "east": {
            "folder": "east",
            "values": {0: "background", 1: "whole heart"},
            "annotated": ["whole heart"],
            "training": [{"image": "a.mha", "label": "a_gt.mha", "subject": "s1", "annotated": [1], "site": 3}],
            "test": [{"image": "b.mha", "label": "b_gt.mha"}, "c.mha"],
            "split": "test",
            "annotated_slices": {"s1": [1, 3], "*": "drawn"},
        },
        "west": {
            "folder": "west",
            "images": "{subject}/image.nii",
            "masks": {"RV": "{subject}/rv.nii", "left": "{subject}/lv.nii", "whole heart": "{subject}/heart.nii"},
            "names": {"left": "LV", "Ventricle_R": "RV"},
            "overlap": "first",
            "disagreement": "either",
            "annotated_slices": "drawn",
            "uncertain_border": 1.5,
        },
        "lists": {
            "folder": "west",
            "training": [
                {"image": "p0/image.nii", "masks": {"RV": "p0/rv2.nii"}, "subject": "west", "annotated_slices": [2]}
            ],
            "split": [1, 0, 0],
        },
    },
}
PICTURES = {
    "classes": ["background", "gland"],
    "channels": ["T1", "T2"],
    "datasets": {
        "patterns": {
            "folder": "pictures",
            "images": ["{subject}_t1.png", "{subject}_t2.png"],
            "labels": "{subject}_gt.png",
            "values": {0: "rest", 1: "gland", 255: "unlabelled"},
            "names": {"rest": "background"},
            "pixel_size": [0.5, 0.25],
            "annotated": {"p0": ["rest", "gland"], "*": ["gland"]},
            "uncertain_border": 1,
        },
        "lists": {
            "folder": "pictures",
            "training": [{"image": ["more/x1.png", "more/x2.png"], "masks": {"gland": "more/gland.png"}, "subject": 7}],
            "overlap": "either",
            "annotated_slices": {"7": "drawn"},
            "pixel_size": 0.5,
            "split": "training",
        },
    },
}
DECATHLON = {
    "name": "South",
    "labels": {"0": "background", "1": "MYO"},
    "training": [{"image": f"./{i}.nii", "label": f"./{i}_gt.nii", "annotated": ["MYO"]} for i in range(6)],
    "test": ["./t.nii"],
}


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    """Three hospitals, with empty files: nothing is read when a list is made."""
    root = tmp_path_factory.mktemp("hearts")
    names = [f"north/p{i}/{phase}{end}.nii.gz" for i in range(6) for phase in ("ED", "ES") for end in ("", "_gt")]
    names += [f"south/{i}{end}.nii" for i in [*range(6), "t"] for end in ("", "_gt")]
    names += [f"east/{name}{end}.mha" for name in "abc" for end in ("", "_gt")]
    names += [f"west/p{i}/{name}.nii" for i in range(4) for name in ("image", "rv", "lv", "heart", "rv2")]
    names += [f"pictures/{subject}_{kind}.png" for subject in ("p0", "p1", "p2") for kind in ("t1", "t2", "gt")]
    names += [f"pictures/more/{name}.png" for name in ("x1", "x2", "gland")]
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    (root / "south/dataset.json").write_text(json.dumps(DECATHLON))
    return root


def outcome(path: Path, root: Path) -> str:
    """Load a file; what is read must be sound, what is refused must be told in one line that names a file."""
    try:
        datalist = load_datalist(path)
    except DataError as error:
        message = str(error)
    else:
        check(datalist, path.with_name("written.json"))
        return "read"
    assert message.isprintable()
    assert str(root) in message
    assert not any(word in message for word in ("Input should", "Value error", "Error(", "should be a valid"))
    return "refused"


def check(datalist, written: Path) -> None:
    """Its files exist, every label value has a candidate, and it is the same when it was written and read again."""
    num_classes = len(datalist["classes"])
    for item in (item for split in SPLITS for item in datalist[split]):
        assert all(Path(path).exists() for path in (item["image"], *item.get("further_images", ())))
        assert {"subject", "case", "dataset"} <= {*item}
        for annotation in annotations_of(item):
            assert Path(annotation["label"]).exists()
            assert all(annotation_table(annotation, num_classes).values())
    digest = write_datalist(datalist, written)
    again = load_datalist(written)
    assert datalist_hash(again) == digest
    assert json.dumps(again, sort_keys=True) == json.dumps(datalist, sort_keys=True)  # equal, nan included


def test_the_files_are_good(root):
    """Otherwise all changed ones would be refused for the same reason."""
    (root / "good.yaml").write_text(yaml.safe_dump(HEARTS))
    (root / "pictures.yaml").write_text(yaml.safe_dump(PICTURES))
    for name in ("good.yaml", "pictures.yaml", "south/dataset.json"):
        assert outcome(root / name, root) == "read"


NAMES = """
RV rv unlabelled background training validation test image label annotated anotated drawn either first masks overlap
names disagreement annotated_slices uncertain_border channels pixel_size rest subject values list split further_labels
dataset case 0 -1 1.5 01 ² ٣ * p* [ { } {} {0} {subject} {image} {a}{a} ** **/{a}.nii a** ? \\ . .. / /etc /dev/null ~
~nobody/x ../south north north/p0/ED.nii.gz a.mha << no null ~ !!int &a *a
"""
WORDS = [*NAMES.split(), "", "whole heart", "{a b}", "x" * 300, " RV", "R\nV", "a\0b", "\ud800", "\u202e", "\xa0"]
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 300),
    st.integers(),
    st.floats(),
    st.sampled_from(WORDS),
    st.sampled_from(WORDS),
    st.sampled_from([10**400, 1e308, 5e-324, 2**64]),
    st.text(max_size=5),
)
KEYS = st.one_of(st.sampled_from(WORDS), st.integers(-3, 300), st.booleans(), st.floats(), st.none())
JUNK = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=5
)


def places(content, place=()):
    """Every place in nested lists and dictionaries."""
    yield place
    if isinstance(content, (dict, list)):
        for key in content if isinstance(content, dict) else range(len(content)):
            yield from places(content[key], (*place, key))


def change(content, draw):
    """Change content at one random place: take out, replace, misspell, add, repeat."""
    place = draw(st.sampled_from([place for place in places(content) if place]))
    holder = content
    for key in place[:-1]:
        holder = holder[key]
    key = place[-1]
    kind = draw(st.sampled_from(["remove", "replace", "replace", "key", "add", "repeat"]))
    if kind == "remove":
        del holder[key]
    elif kind == "replace":
        holder[key] = draw(JUNK)
    elif isinstance(holder, list):
        holder.insert(0, copy.deepcopy(holder[key]) if kind == "repeat" else draw(JUNK))
    elif kind == "key":
        letter = draw(st.sampled_from("aszE_ 1"))
        holder[letter + str(key) if draw(st.booleans()) else str(key)[:-1]] = holder.pop(key)
    else:
        holder[draw(KEYS)] = copy.deepcopy(holder[key]) if kind == "repeat" else draw(JUNK)


@st.composite
def changed(draw, content):
    content = copy.deepcopy(content)
    for _ in range(draw(st.sampled_from([1, 1, 1, 2, 3]))):
        change(content, draw)
    return content


def as_text(content, kind: str) -> str:
    return json.dumps(content) if kind == "json" else yaml.safe_dump(content)


@given(content=changed(HEARTS) | changed(PICTURES), kind=st.sampled_from(["yaml", "json"]))
@FUZZ
def test_changed_description(root, content, kind):
    path = root / f"changed.{kind}"
    path.write_text(as_text(content, kind))
    event(outcome(path, root))


@given(content=changed(DECATHLON), kind=st.sampled_from(["yaml", "json"]), alone=st.booleans())
@FUZZ
def test_changed_list(root, content, kind, alone):
    """On its own, and as the list of a data set."""
    path = root / f"south/changed.{kind}"
    path.write_text(as_text(content, kind))
    if not alone:
        entry = {"list": f"south/{path.name}"}
        path = root / "around.json"
        path.write_text(json.dumps({"classes": ["background", "MYO"], "datasets": {"south": entry}}))
    event(outcome(path, root))


@given(data=st.data())
@FUZZ
def test_changed_datalist(root, data):
    """A datalist of ours that was changed by hand: only where the files lie, and notes, may change."""
    path = root / "resolved.json"
    digest = write_datalist(load_datalist(root / "south/dataset.json"), path)
    path.write_text(json.dumps(data.draw(changed(json.loads(path.read_text())))))
    try:
        assert datalist_hash(load_datalist(path)) == digest
    except DataError as error:
        message = str(error)
        event("refused")
    else:
        return
    assert message.startswith(str(path))
    assert message.isprintable()


@given(content=st.dictionaries(KEYS, JUNK, max_size=5) | JUNK, kind=st.sampled_from(["yaml", "json"]))
@FUZZ
def test_any_structure(root, content, kind):
    path = root / f"any.{kind}"
    path.write_text(as_text(content, kind))
    event(outcome(path, root))


KINDS = ("int", "set", "binary", "timestamp", "omap", "float")
SIGNS = "classes unions datasets training values : [ ] { } , *a !! \" ' # \\ 0 1 - . ~ é \x00 \ufeff true ... @ `"
YAML_PIECES = [*SIGNS.split(), "\n", "\n  ", "\t", "\x85", "%YAML 1.1\n", "---\n"]
YAML_PIECES += [f"{sign} " for sign in (":", "-", "&a", "<<:", "?", "|", ">", *(f"!!{kind}" for kind in KINDS))]


@given(
    pieces=st.lists(st.sampled_from(YAML_PIECES) | st.text(max_size=3), max_size=30),
    ending=st.sampled_from(["yaml", "json"]),
)
@FUZZ
def test_any_text(root, pieces, ending):
    path = root / f"text.{ending}"
    path.write_text("".join(pieces), encoding="utf-8", errors="replace")
    event(outcome(path, root))


@given(content=st.binary(max_size=50), ending=st.sampled_from(["yaml", "json"]))
@FUZZ
def test_any_bytes(root, content, ending):
    path = root / f"bytes.{ending}"
    path.write_bytes(content)
    event(outcome(path, root))


@pytest.mark.parametrize(
    "text",
    [
        "&a {classes: *a}",
        "classes: &a [background, *a]",
        "datasets: &a {north: *a}",
        "classes: [background, RV]\ndatasets: &a {north: {training: &b [*b]}}",
        "classes: [background, RV]\ndatasets: {north: {training: [&c {image: a, note: *c}]}}",
        "classes: [background, RV]\nunions: &u {x: *u}\ndatasets: {}",
        "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: &d [*c, *c]\nclasses: *d\ndatasets: *d",
        "classes: " + "[" * 400 + "]" * 400,
        "datasets: " + "{a: " * 300 + "b" + "}" * 300,
    ],
)
def test_anchors_and_nesting(root, text):
    path = root / "anchors.yaml"
    path.write_text(text)
    assert outcome(path, root) == "refused"
