"""Tests of the division of subjects into training, validation and test."""

from __future__ import annotations

from itertools import chain

import pytest

from dcl_monai.datalist import split_subjects
from dcl_monai.datalist.splits import SPLITS
from dcl_monai.utils import DataError


def make_items(count: int) -> list[dict[str, str]]:
    """Two images of each subject."""
    return [
        {"image": f"patient{i:03d}/{phase}.nii.gz", "subject": f"patient{i:03d}"}
        for i in range(count)
        for phase in ("ED", "ES")
    ]


def subjects(items) -> set[str]:
    return {item["subject"] for item in items}


@pytest.mark.parametrize(
    ("count", "parts", "sizes"),
    [
        (100, (60, 20, 20), (60, 20, 20)),
        (150, (60, 20, 20), (90, 30, 30)),
        (50, (60, 20, 20), (30, 10, 10)),
        (5, (60, 20, 20), (3, 1, 1)),
        (10, (0.6, 0.2, 0.2), (6, 2, 2)),
        (45, (25, 5, 15), (25, 5, 15)),
        (20, (20, 10, 30), (7, 3, 10)),
        (10, (80, 0, 20), (8, 0, 2)),
        (3, (1, 0, 0), (3, 0, 0)),
    ],
)
def test_proportions(count, parts, sizes):
    splits = split_subjects(make_items(count), parts)
    assert tuple(splits) == SPLITS
    assert tuple(len(subjects(splits[name])) for name in SPLITS) == sizes


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_disjoint_and_complete(seed):
    items = make_items(23)
    splits = split_subjects(items, (60, 20, 20), seed)
    every = [subjects(splits[name]) for name in SPLITS]
    assert sum(map(len, every)) == len(set.union(*every)) == 23
    assert sorted(chain(*splits.values()), key=lambda item: item["image"]) == items


def test_deterministic():
    items = make_items(20)
    assert split_subjects(items, (60, 20, 20), 3) == split_subjects(items, (60, 20, 20), 3)
    assert split_subjects(items, (60, 20, 20), 3) != split_subjects(items, (60, 20, 20), 4)


@pytest.mark.parametrize(
    ("count", "parts", "held_out", "folds"),
    [(50, (30, 5, 15), "test", 3), (20, (60, 20, 20), "test", 5), (20, (80, 20, 0), "validation", 5)],
)
def test_folds(count, parts, held_out, folds):
    """Folds of one seed hold out one group of subjects after the other; the first is the division without folds."""
    items = make_items(count)
    divided = [split_subjects(items, parts, 7, fold=fold) for fold in range(folds)]
    assert divided[0] == split_subjects(items, parts, 7)
    groups = [subjects(splits[held_out]) for splits in divided]
    assert (
        sum(map(len, groups))
        == len(set.union(*groups))
        == folds * round(count * parts[SPLITS.index(held_out)] / sum(parts))
    )
    for splits in divided:
        assert sum(len(subjects(splits[name])) for name in SPLITS) == count


@pytest.mark.parametrize(("fold", "parts"), [(5, (60, 20, 20)), (5, (80, 20, 0)), (10**30, (60, 20, 20))])
def test_no_fold_repeats_another(fold, parts):
    with pytest.raises(DataError, match=rf"^north: fold {fold}: a fold holds out \d+ of 20 subjects"):
        split_subjects(make_items(20), parts, where="north", fold=fold)


def test_order_of_the_items_does_not_matter():
    items = make_items(20)
    one, other = split_subjects(items, (60, 20, 20)), split_subjects(items[::-1], (60, 20, 20))
    assert all(subjects(one[name]) == subjects(other[name]) for name in SPLITS)


@pytest.mark.parametrize(("count", "missing"), [(2, "validation|test"), (0, "training")])
def test_too_few_subjects(count, missing):
    with pytest.raises(
        DataError, match=rf"^data set 'north': {count} subject\(s\) leave none for ({missing}).*\[60, 20, 20\].*add"
    ):
        split_subjects(make_items(count), (60, 20, 20), where="data set 'north'")


@pytest.mark.parametrize("parts", [(60, 40), (0, 0, 0), (60, -20, 20), (60, float("inf"), 20), (float("nan"), 1, 1)])
def test_impossible_split(parts):
    with pytest.raises(DataError, match=r"invalid: give three numbers"):
        split_subjects(make_items(20), parts)


def test_rounding_leaves_no_split_empty():
    """MSCMRseg's 25/5/15 of five labelled subjects: validation would be a third of a subject."""
    divided = split_subjects([{"subject": f"s{k}"} for k in range(5)], (25, 5, 15))
    assert [len(divided[split]) for split in ("training", "validation", "test")] == [2, 1, 2]
