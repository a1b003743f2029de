"""Dividing subjects into training, validation and test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import numpy as np

from dcl_monai.utils import DataError

from .items import Item, Split

SPLITS: tuple[Split, ...] = get_args(Split)
"""Names of the splits."""


def split_subjects(
    items: Sequence[Item], parts: Sequence[float], seed: int = 0, where: str = "", fold: int = 0
) -> dict[Split, list[Item]]:
    """
    Divide items into training, validation and test by subject, so that no subject stands in two of them.

    Args:
        items: items with a ``subject``.
        parts: sizes of the three splits in proportion to each other: (60, 20, 20) for the paper's ACDC experiments. A
            split of size 0 stays empty.
        seed: seed of the random division.
        where: the data set, and its place in the user's file, for messages.
        fold: which division of that seed: each goes on where the test subjects of the one before began (the validation
            subjects, without a test), so that no two test the same subject until all have been tested.

    Raises:
        DataError: when a split would be empty, or every subject was tested in folds before.
    """
    if len(parts) != len(SPLITS) or min(parts) < 0 or not 0 < sum(parts) < np.inf:
        raise DataError(f"the split {list(parts)} is invalid: give three numbers, not all 0, like 60 20 20.")
    shown, place = ", ".join(f"{part:g}" for part in parts), f"{where}: " if where else ""
    subjects = sorted({item["subject"] for item in items})
    order = np.random.default_rng(seed).permutation(len(subjects))
    edges = np.rint(np.cumsum([0.0, *parts]) / sum(parts) * len(subjects)).astype(int)
    sizes = np.diff(edges)
    for split in np.flatnonzero((sizes == 0) & (np.asarray(parts) > 0)):
        if sizes.max() < 2:
            raise DataError(
                f"{place}{len(subjects)} subject(s) leave none for {SPLITS[split]} at a split of [{shown}]: add "
                "subjects, or say in which split they are (`split: training`, for example)."
            )
        sizes[sizes.argmax()] -= 1  # rounding leaves no split empty that should hold something
        sizes[split] += 1
    held_out = int(sizes[2] or sizes[1])
    if fold and fold * held_out >= len(subjects):
        raise DataError(
            f"{place}fold {fold}: a fold holds out {held_out} of {len(subjects)} subjects. Choose a fold from 0 to "
            f"{-(-len(subjects) // held_out) - 1}, or another seed."
        )
    order = np.roll(order, fold * held_out)
    chosen = np.split(order, np.cumsum(sizes)[:-1])
    members = {split: {subjects[index] for index in indices} for split, indices in zip(SPLITS, chosen, strict=True)}
    return {split: [item.copy() for item in items if item["subject"] in members[split]] for split in SPLITS}
