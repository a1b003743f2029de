"""Tests of the types of a datalist: the keys stand once, and all else is derived from them."""

from __future__ import annotations

from dcl_monai.datalist import Annotation, Datalist, Item
from dcl_monai.datalist.items import SPECIFICATION, unhidden
from dcl_monai.datalist.schema import RESERVED
from dcl_monai.datalist.splits import SPLITS


def test_keys_are_derived_from_the_types():
    values = {"values", "unlabelled", "annotated", "drawn", "content", "region", "further_labels"}
    forms = {"rater", "overlap", "disagreement", "annotated_slices", "uncertain_border"}
    assert {*SPECIFICATION} == values | forms
    made = {"case", "dataset", "split", "further_images", "pixel_size"}
    assert {*RESERVED} == {*SPECIFICATION, *made} - {"annotated", "annotated_slices"}
    assert {*SPLITS} == Datalist.__annotations__.keys() - {"classes", "unions", "channels", "minutes"}
    assert Annotation.__annotations__.keys() < Item.__annotations__.keys()


def test_unhidden():
    other: Annotation = {"label": "c", "annotated": [2], "drawn": [1, 2]}
    item: Item = {"image": "a", "subject": "s", "label": "b", "annotated": [1], "further_labels": [other]}
    assert unhidden(item) == item | {"further_labels": [other | {"annotated": [1, 2]}]}
    assert unhidden(item | {"drawn": [3]})["annotated"] == [3]
