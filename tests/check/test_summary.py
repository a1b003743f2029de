"""Tests of the numbers of a report."""

from __future__ import annotations

import pytest

from dcl_monai.check import Problem, inspect_datalist
from dcl_monai.check.reading import candidate_counts
from dcl_monai.check.summary import Summary
from dcl_monai.datalist.load import datalist_hash


@pytest.fixture
def summary(datalist, make_item):
    datalist["training"] = [
        make_item("a", annotated=[[1]]),
        make_item("b", annotated=[[1, 2]]),
        make_item("c", dataset="south", annotated=[[2]]),
        make_item("d", dataset="south", subject="c", annotated=[[0], [2]]),
    ]
    return Summary("my.yaml", datalist, inspect_datalist(datalist, progress=False), [])


ERROR, WARNING = Problem("error", "Kind", "e"), Problem("warning", "Other", "w")


@pytest.mark.parametrize(
    ("problems", "verdict"),
    [
        ([], "Ready to train"),
        ([WARNING], "Ready to train, with 1 warning"),
        ([ERROR], "Not ready: 1 error"),
        ([ERROR, ERROR, WARNING, WARNING], "Not ready: 2 errors, 2 warnings"),
    ],
)
def test_verdict(summary, problems, verdict):
    summary.problems = problems
    assert summary.verdict == verdict


def test_problems_by_kind(summary):
    summary.problems = [ERROR, Problem("error", "Kind", "e2"), WARNING]
    assert summary.of("error") == {"Kind": ["e", "e2"]}
    assert summary.of("warning") == {"Other": ["w"]}


def test_headline(summary):
    assert summary.facts == "6 images of 5 subjects in 2 data sets; 3 classes: background, RV, LV."
    assert summary.hash == datalist_hash(summary.datalist)


def test_numbers(summary):
    assert summary.numbers() == [
        ["north", "2 (2 subjects)", "1 (1 subject)", "1 (1 subject)"],
        ["south", "2 (1 subject)", "-", "-"],
    ]


def test_repeated_items_are_one_image(datalist):
    datalist["training"] = [item | {"annotated": [j]} for item in datalist["training"] for j in range(3)]
    summary = Summary("my.yaml", datalist, inspect_datalist(datalist, progress=False), [])
    assert summary.numbers()[0][1] == "4 (4 subjects), listed 12 times"


def test_sizes(summary):
    assert summary.sizes() == [["north", "1 x 1 x 1", "8 x 7 x 3", "RAS"], ["south", "1 x 1 x 1", "8 x 7 x 3", "RAS"]]


TOLD = (("b", 0b001), ("c", 0b100))


def sets_of(summary, case):
    """Number of voxels of each candidate set of an item."""
    (item,) = [item for item in summary.datalist["training"] if item["case"] == case]
    (record,) = [record for record in summary.records if record.case == case]
    return candidate_counts(item, record.files, summary.classes)[0]


def test_states(summary):
    assert [state.value for state in summary.used] == ["present", "in a union only", "not annotated"]
    assert summary.states("north", "training") == [
        ["background", "1", "-", "1"],
        ["RV", "1", "1", "-"],
        ["LV", "-", "1", "1"],
    ]
    # [[0], [2]] decides the third class too, by exclusion
    known = summary.known_parts()
    assert [row[2] for row in summary.totals()] == known
    assert [row[:2] + row[3:] for row in summary.totals()] == [
        ["background", "2", "4", "-", "2"],
        ["RV", "2", "4", "1", "1"],
        ["LV", "1", "4", "1", "1"],
    ]
    # of 168 voxels a shows the RV, b RV and LV as one (15 or 17), c the LV (6 or 8), d both
    outside, lv = (sum(n for bits, n in sets_of(summary, case).items() if bits == wanted) for case, wanted in TOLD)
    assert known[1] == f"{100 * (1 + outside / 168 + lv / 168 + 1) / 4:.1f} %"


def test_never_together(summary):
    summary.records = [record for record in summary.records if record.case != "d"]
    assert summary.never_together() == [
        ("background", ["RV", "LV"]),
        ("RV", ["background", "LV"]),
        ("LV", ["background", "RV"]),
    ]


def test_always_together(datalist):
    assert Summary("x", datalist, inspect_datalist(datalist, progress=False), []).never_together() == []
