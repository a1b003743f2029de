"""Datalists: which image is in which split, and what its label says about which class.

A datalist is a dictionary with ``classes`` (names, background first), ``unions`` (name -> class indices) and the splits
``training``, ``validation`` and ``test``, each a list of items:

=================== =================================================================================================
``image``           file, or folder of a DICOM series
``subject``         who it is; no subject stands in two splits
``dataset``         data set it comes from
``case``            its name within the data set, the same on every machine
``label``           label file; without it nothing is known of the image
``values``          label value -> class indices it stands for
``unlabelled``      label values about whose voxels nothing is known
``annotated``       what the annotator drew: class indices, and unions as lists of them (see
                    :class:`~dcl_monai.transforms.EncodeCandidates`)
``drawn``           the same of the file itself, where some of it is hidden to simulate partial annotation
``further_labels``  other annotations of the same image: dictionaries with the four entries above
=================== =================================================================================================

and whatever else the user noted of an image (``phase``, ...). On disk the same is written with class names instead of
indices. :func:`~dcl_monai.datalist.load_datalist` makes one from a user's file (:mod:`dcl_monai.datalist.schema`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dcl_monai.candidates import all_classes, annotated_classes, label_sets, outlines, shown_set

__all__ = ["SPECIFICATION", "annotation_table", "annotations_of", "decided_classes", "item_sets", "shown_classes"]

SPECIFICATION = ("values", "unlabelled", "annotated", "drawn", "content", "further_labels")
"""Entries of an item that say what its label means."""


def annotations_of(item: Mapping[Any, Any]) -> list[Mapping[Any, Any]]:
    """The annotations of an item, each with ``label``, ``values``, ``annotated``, ...; none, one or more."""
    own = [item] if item.get("label") is not None else []
    return [*own, *item.get("further_labels", ())]


def decided_classes(item: Mapping[str, Any], num_classes: int) -> tuple[int, ...]:
    """
    Classes that the annotations of the item decide at every voxel, as far as the list tells without reading files.

    A union decides none of its members, and scribbles decide nothing.
    """
    return annotated_classes(item_sets(item, num_classes), num_classes) if annotations_of(item) else ()


def shown_classes(item: Mapping[str, Any], num_classes: int) -> tuple[int, ...]:
    """Classes that the item's labels may show on their own: decided ones, and those of which there may be strokes."""
    drawn = item_sets(item, num_classes)
    return tuple(sorted({j for j in range(num_classes) if 1 << j in drawn} | set(decided_classes(item, num_classes))))


def item_sets(item: Mapping[str, Any], num_classes: int) -> set[int]:
    """Candidate sets, as bits, that voxels of the item may have: what all its annotations allow."""
    sets = {all_classes(num_classes)}
    for annotation in annotations_of(item):
        sets = {one & other for one in sets for other in annotation_table(annotation, num_classes).values()} - {0}
    return sets


def annotation_table(annotation: Mapping[str, Any], num_classes: int) -> dict[int, int]:
    """Candidate set, as bits, of every label value of an annotation."""
    values = label_sets(num_classes, annotation.get("values"), annotation.get("unlabelled"))
    shown = outlines(annotation.get("annotated"), num_classes)
    return {value: shown_set(bits, shown, num_classes) for value, bits in values.items()}
