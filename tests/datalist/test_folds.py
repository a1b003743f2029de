from __future__ import annotations

import pytest

from dcl_monai.datalist import choose_fold, load_datalist
from dcl_monai.utils import DataError


def subjects(items):
    return {item["subject"] for item in items}


def test_every_subject_validates_once_and_the_test_stays(hospitals):
    whole = load_datalist(hospitals(2))
    folds = [choose_fold(hospitals(2), fold, 4) for fold in range(4)]
    validated = [subjects(fold["validation"]) for fold in folds]
    assert sum(map(len, validated)) == len(set().union(*validated)) == 12
    for fold, chosen in zip(folds, validated, strict=True):
        assert fold["test"] == whole["test"]
        assert not chosen & subjects(fold["training"])
        assert {subject.partition("/")[0] for subject in chosen} == {"north", "south", "east"}


@pytest.mark.parametrize(
    ("fold", "folds", "message"), [(4, 4, "folds 0 to 3"), (0, 1, "Choose 2 to 6"), (0, 7, "2 to 6")]
)
def test_no_such_fold(hospitals, fold, folds, message):
    with pytest.raises(DataError, match=message):
        choose_fold(hospitals(2), fold, folds)
