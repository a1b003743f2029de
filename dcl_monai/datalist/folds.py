"""Folds for cross-validation: every annotated subject validates one of several models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dcl_monai.utils import DataError

from .items import Datalist, Item, annotations_of, shown_classes
from .load import load_datalist


def fold_subjects(items: Sequence[Item], num_classes: int, folds: int, seed: int = 0) -> dict[str, int]:
    """
    Divide subjects into folds, so that every data set and every kind of annotation is in all of them alike.

    Args:
        items: images; those of a subject come into one fold.
        num_classes: number of classes m.
        folds: number of folds.
        seed: of the division.

    Returns:
        subject -> fold.
    """
    kinds: dict[str, set[tuple[str, int]]] = {}
    for item in items:
        shown = {(item.get("dataset", ""), j) for j in shown_classes(item, num_classes)}
        kinds.setdefault(item["subject"], set()).update(shown)
    subjects = sorted(kinds)
    order = np.random.default_rng(seed).permutation(len(subjects))
    mixed = sorted((subjects[place] for place in order), key=lambda subject: sorted(kinds[subject]))
    return {subject: place % folds for place, subject in enumerate(mixed)}


def choose_fold(source: str | Path, fold: int, folds: int = 5, seed: int = 0) -> Datalist:
    """
    The subjects of training and validation, divided anew: those of one fold validate. The test stays as it is.

    Args:
        source: datalist, or the file that describes it.
        fold: which fold validates, from 0.
        folds: number of folds.
        seed: of the division.

    Raises:
        DataError: when there is no such fold, or there are too few subjects.
    """
    datalist = load_datalist(source)
    items = [*datalist["training"], *datalist["validation"]]
    annotated = [item for item in items if annotations_of(item)]
    number = len({item["subject"] for item in annotated})
    if isinstance(folds, bool) or not isinstance(folds, int) or not 2 <= folds <= number // 2:
        raise DataError(f"--folds {folds}: {source} has {number} annotated subjects. Choose 2 to {number // 2}.")
    if isinstance(fold, bool) or not isinstance(fold, int) or not 0 <= fold < folds:
        raise DataError(f"--fold {fold}: there are folds 0 to {folds - 1}. Choose one of them, or more --folds.")
    part = fold_subjects(annotated, len(datalist["classes"]), folds, seed)
    validation = [item for item in items if part.get(item["subject"]) == fold]
    training = [item for item in items if part.get(item["subject"]) != fold]
    return {**datalist, "training": training, "validation": validation}
