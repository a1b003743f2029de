"""What all label files of an image say together about a voxel."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from dcl_monai.candidates import agreed, all_classes, label_sets

from .items import Annotation, annotation_table

Drawing = tuple[int, ...]
"""What a rater drew at a voxel: a label value per file."""
Choice = tuple[Drawing, ...]
"""Drawings between which a rater is not sure; empty where nothing is known."""


class Agreement:
    """
    Candidate set of a voxel, given what every rater drew there.

    A rater made one label map, or a mask per structure. The masks of a rater are brought together by ``overlap``, the
    raters by ``disagreement``.

    Args:
        annotations: annotations of the image.
        num_classes: number of classes m.

    Examples:
        >>> rv = {"label": "rv.nii", "values": {0: [0, 2], 1: [1]}, "rater": 0, "overlap": "either"}
        >>> lv = {"label": "lv.nii", "values": {0: [0, 1], 1: [2]}, "rater": 0, "overlap": "either"}
        >>> told = Agreement([rv, lv], num_classes=3)
        >>> told([((1, 0),)]) == 0b010, told([((1, 1),)]) == 0b110
        (True, True)
    """

    def __init__(self, annotations: Sequence[Annotation], num_classes: int) -> None:
        numbered = [(a.get("rater", f"alone {place}"), a) for place, a in enumerate(annotations)]
        self.raters = [[a for _, a in members] for _, members in groupby(numbered, key=lambda pair: pair[0])]
        self.tables = [[annotation_table(a, num_classes) for a in rater] for rater in self.raters]
        self.everything = all_classes(num_classes)
        self.disagreement = "either" if any("disagreement" in a for a in annotations) else "error"
        self._meant = [
            [label_sets(num_classes, a.get("values"), a.get("unlabelled")) for a in rater] for rater in self.raters
        ]

    def __call__(self, choices: Sequence[Choice]) -> int:
        """
        Candidate set, as bits, by what every rater may have drawn at the voxel.

        It is 0 if masks of a rater overlap or raters disagree, and nobody allowed them to.
        """
        sets = [self.of_rater(place, choice) for place, choice in enumerate(choices)]
        return agreed([self.everything, *sets], self.disagreement) if all(sets) else 0

    def of_rater(self, rater: int, choice: Choice) -> int:
        """Candidate set, as bits, by one rater; 0 if masks overlap and should not."""
        if not choice:
            return self.everything
        sets = [agreed(self.said(rater, drawing), self.raters[rater][0].get("overlap", "error")) for drawing in choice]
        result = 0
        for bits in sets:
            if not bits:
                return 0
            result |= bits
        return result

    def said(self, rater: int, drawing: Drawing) -> list[int]:
        """What every file of a rater says of a voxel, as bits."""
        return [table[value] for table, value in zip(self.tables[rater], drawing, strict=True)]

    def is_drawn(self, rater: int, drawing: Drawing) -> bool:
        """Whether there is something else than background, as the file itself says, whatever of it is hidden."""
        return any(not meant[value] & 1 for meant, value in zip(self._meant[rater], drawing, strict=True))

    def is_blank(self, rater: int, drawing: Drawing) -> bool:
        """Whether the files of a rater say nothing: off the strokes, ignored."""
        return all(meant[value] == self.everything for meant, value in zip(self._meant[rater], drawing, strict=True))
