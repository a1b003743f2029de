"""Labels that annotators stored on a MONAI Label server: which structures did they draw, and as which value?

A label in the server's datastore is a file, and a note in ``datastore_v2.json`` that the client sent with it. 3D
Slicer's client lists its segments there, ``"label_info": [{"name": "lv", "idx": 1}]``, and numbers those it sends from
one: a segment on its own has the value 1, whichever structure it is. So the note, not the file, says what a value is.

What counts as annotated, from the surest to the least sure:

1. ``"annotated": ["RV", "LV"]`` in the note, for clients that can say so: these structures, drawn or absent.
2. ``"label_info"``: the structures in it that have a voxel. Slicer lists an empty segment for every structure of the
   model from the start, so an empty one was not drawn, or looked for and absent: nobody knows which.
3. No note, a file that was put there by hand: its values are class indices, and the structures that have a voxel count.

All other structures are unknown. None is taken for absent because nobody drew it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from monai.config import KeysCollection
from monai.transforms import MapTransform

from dcl_monai.datalist.items import Annotation
from dcl_monai.utils import DataError

from .files import geometry_mistakes, read_image, read_label

__all__ = ["StoredAnnotationD", "StoredAnnotationDict", "StoredAnnotationd", "check_annotation", "stored_annotation"]

logger = logging.getLogger(__name__)

DATASTORE = "datastore_v2.json"


class StoredAnnotationd(MapTransform):
    """
    Complete an item ``{image, label}``, as a MONAI Label server gives it to a training, with what the label says: the
    entries of a :class:`~dcl_monai.datalist.Annotation` that :class:`~dcl_monai.transforms.LoadCandidatesd` needs.

    Args:
        keys: key of the label file.
        classes: class names of the model, background first.
        image_key: key of the image file, which stands for the subject, too: the server knows no patients.

    Raises:
        DataError: when the note and the file do not fit together, or name a structure that the model does not have.
    """

    def __init__(self, keys: KeysCollection, classes: Sequence[str], image_key: str = "image") -> None:
        super().__init__(keys)
        self.classes = list(classes)
        self.image_key = image_key

    def __call__(self, data: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        d = dict(data)
        for key in self.key_iterator(d):
            d.update(stored_annotation(d[key], self.classes).items())
        d["subject"] = Path(d[self.image_key]).name
        return d


def stored_annotation(label: str | Path, classes: Sequence[str]) -> Annotation:
    """
    Read what a stored label says.

    Args:
        label: label file, ``<studies>/labels/<tag>/<image>.nii.gz``.
        classes: class names of the model, background first; names in the note may differ in case.

    Returns:
        ``values``, label value -> class index, and ``annotated``, class indices, as in a datalist.

    Raises:
        DataError: as :class:`StoredAnnotationd` does.
    """
    path = Path(label)
    return _annotation(path, _note(path), classes)


def check_annotation(label: str | Path, note: Mapping[str, Any], classes: Sequence[str], image: str | Path) -> None:
    """
    Refuse a label that no training could read, before it is stored.

    Args:
        label: label file.
        note: what the client sent with it.
        classes: class names of the model, background first.
        image: image file that the label belongs to.

    Raises:
        DataError: as :class:`StoredAnnotationd` and :class:`~dcl_monai.transforms.LoadCandidatesd` do.
    """
    path = Path(label)
    _annotation(path, note, classes)
    for mistake in geometry_mistakes(str(path), read_label(str(path)), read_image(str(image))):
        raise DataError(mistake.message)


def _annotation(path: Path, note: Mapping[str, Any], classes: Sequence[str]) -> Annotation:
    """What a label says, by its file and its note."""
    found = _values(path)
    listed = note.get("label_info")
    values = {j: j for j in range(len(classes))} if listed is None else _listed_values(listed, found, classes, path)
    unknown = sorted(found - set(values) - {0})
    if unknown:
        raise DataError(
            f"{path}: holds the value(s) {unknown}, but {_meaning(listed, values, classes)}. Store it again."
        )
    said = note.get("annotated")
    if said is None:
        annotated = sorted({values[value] for value in found - {0}} - {0})
    elif isinstance(said, list):
        annotated = sorted({_class_index(name, classes, path) for name in said})
        if 0 in annotated:
            raise DataError(f"{path}: {classes[0]!r} is no structure that one draws. Leave it out of `annotated`.")
    else:
        raise DataError(f"{path}: its `annotated` is {said!r}, but a list of names is needed. Store it again.")
    if not annotated:
        logger.warning(f"{path}: nothing is drawn in it, so nothing is learned from it.")
    return {"values": {0: 0} | values, "annotated": annotated}


def _note(path: Path) -> Mapping[str, Any]:
    """What the client sent with a label; nothing for a file that was put there by hand."""
    datastore = path.parents[2] / DATASTORE if len(path.parents) > 2 else path
    try:
        content = json.loads(datastore.read_text(encoding="utf-8"))
        labels = {name: entry["labels"].get(path.parent.name) for name, entry in content["objects"].items()}
        notes = [entry["info"] for name, entry in labels.items() if entry and name + entry["ext"] == path.name]
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"{datastore}: is damaged ({error}). Restore it from a backup, or store the labels again."
        ) from error
    return notes[0] if notes else {}


def _values(path: Path) -> set[int]:
    """The values of a label file."""
    found = np.unique(read_label(str(path), "Store the label again.").numpy())
    if not np.array_equal(found, np.rint(found)):
        raise DataError(f"{path}: label values must be whole numbers; is this an image? Store the label again.")
    return {int(value) for value in found}


def _listed_values(listed: Any, found: set[int], classes: Sequence[str], path: Path) -> dict[int, int]:
    """Label value -> class index, by a client's list of segments."""
    try:
        segments = [(str(entry["name"]), int(entry.get("idx", place))) for place, entry in enumerate(listed, 1)]
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise DataError(f"{path}: its label_info is damaged ({str(listed)[:80]}). Store the label again.") from error
    indices = [_class_index(name, classes, path) for name, _ in segments]
    if len(set(indices)) < len(indices):
        raise DataError(f"{path}: label_info lists a structure twice ({[n for n, _ in segments]}). Merge the segments.")
    by_idx = {idx: j for (_, idx), j in zip(segments, indices, strict=True)}
    by_place = dict(enumerate((j for j in indices if j), 1))
    # Slicer counts segments that it does not send (background, scribbles) in `idx`, but not in the file's values.
    fitting = [values for values in (by_idx, by_place) if found - {0} <= set(values)]
    drawn = [{value: values[value] for value in found - {0}} for values in fitting]
    if len(drawn) == 2 and drawn[0] != drawn[1]:
        raise DataError(
            f"{path}: its values {sorted(found - {0})} may be the `idx` or the places of label_info {segments}, which "
            "differ. Delete the background and scribbles segments, and store the label again."
        )
    return fitting[0] if fitting else by_idx


def _class_index(name: Any, classes: Sequence[str], path: Path) -> int:
    names = [known.lower() for known in classes]  # MONAI Label tells its clients names in lower case
    if str(name).lower() not in names:
        raise DataError(
            f"{path}: shows a segment {name!r}, but the model knows {', '.join(classes[1:])}. Rename or delete it, and "
            "store the label again."
        )
    return names.index(str(name).lower())


def _meaning(listed: Any, values: Mapping[int, int], classes: Sequence[str]) -> str:
    known = ", ".join(f"{value}: {classes[j]}" for value, j in sorted(values.items()))
    return f"{'the classes are' if listed is None else 'its label_info says'} {known}"


StoredAnnotationD = StoredAnnotationDict = StoredAnnotationd
