"""Data sets that draw a structure differently, and the line of the datalist that says so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np
from scipy.stats import mannwhitneyu

from dcl_monai.datalist.items import Item, annotations_of

from .contradictions import Signs

SUBJECTS = 5
"""Fewest subjects of a data set that are compared."""
LARGER, SIGNIFICANT = 0.1, 0.01
"""Difference of log volume that is reported, and its p, corrected for the number of comparisons."""


@dataclass(frozen=True)
class Protocol:
    """A structure that one data set draws larger than another, compared with models of both."""

    structure: int  # index of the class
    larger: str  # data set that draws it larger
    smaller: str  # the other one
    ratio: float  # of the volumes
    p: float  # by Mann and Whitney's test over subjects, corrected
    line: str  # entry of the data set that draws it larger, for the datalist file; empty if it has no such value


def find_protocols(
    signs: Mapping[tuple[int, int], Signs], items: Sequence[Item], classes: Sequence[str]
) -> list[Protocol]:
    """
    Compare how large data sets draw a structure, relative to the same models; the clearest difference comes first.

    Args:
        signs: (index of the image, index of the class) -> signs.
        items: the images.
        classes: class names, background first.
    """
    found = []
    for structure in sorted({j for _, j in signs}):
        sizes: dict[str, dict[str, list[float]]] = {}
        for (case, j), sign in signs.items():
            if j == structure:
                item = items[case]
                own = sizes.setdefault(item.get("dataset", ""), {})
                own.setdefault(item["subject"], []).append(sign.values["size"])
        means = {name: [float(np.mean(v)) for v in own.values()] for name, own in sizes.items() if len(own) >= SUBJECTS}
        for larger, smaller in permutations(means, 2):
            difference = float(np.median(means[larger]) - np.median(means[smaller]))
            if difference > 0:
                p = float(mannwhitneyu(means[larger], means[smaller]).pvalue)
                found.append((p, difference, structure, larger, smaller))
    protocols = []
    for p, difference, structure, larger, smaller in sorted(found):
        corrected = min(1.0, p * len(found))
        if difference > LARGER and corrected < SIGNIFICANT:
            own_signs = [
                sign for (case, j), sign in signs.items() if j == structure and items[case].get("dataset", "") == larger
            ]
            line = union_line(structure, own_signs, [i for i in items if i.get("dataset", "") == larger], classes)
            protocols.append(Protocol(structure, larger, smaller, float(np.exp(difference)), corrected, line))
    return protocols


def union_line(structure: int, signs: Sequence[Signs], items: Sequence[Item], classes: Sequence[str]) -> str:
    """The entry by which a value means the structure or what the other data sets have there."""
    others = Counter(sign.instead for sign in signs if sign.instead is not None)
    values = Counter(
        value
        for item in items
        for annotation in annotations_of(item)
        for value, members in annotation.get("values", {j: j for j in range(len(classes))}).items()
        if members in (structure, [structure], (structure,))
    )
    if not others or not values:
        return ""
    other, value = others.most_common(1)[0][0], values.most_common(1)[0][0]
    return f"values: {{{value}: [{classes[structure]}, {classes[other]}]}}"
