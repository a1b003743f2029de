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

The name of a segment may say more, since Slicer sends nothing else: ``RV (absent)`` was looked for and is not there,
``RV+MYO+LV (union)`` may be any of these, ``RV (scribble)`` is a stroke, and so may be ``background (scribble)``.
Scripts may send ``"unions": {"heart": ["RV", "MYO", "LV"]}`` and use its names, and ``"scribbles": true``: all segments
are strokes, and nothing is known where none is.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from monai.config import KeysCollection
from monai.transforms import MapTransform

from dcl_monai.datalist.items import Annotation
from dcl_monai.utils import DataError, as_bool

from .files import geometry_mistakes, read_image, read_label

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
    """Refuse a label of an image that no training could read, before it is stored with the client's note."""
    path = Path(label)
    _annotation(path, note, classes)
    for mistake in geometry_mistakes(str(path), read_label(str(path)), read_image(str(image))):
        raise DataError(mistake.message)


def _annotation(path: Path, note: Mapping[str, Any], classes: Sequence[str]) -> Annotation:
    """What a label says, by its file and its note."""
    found = _values(path)
    listed, known = note.get("label_info"), _Names(classes, note.get("unions"), path)
    segments = [] if listed is None else _segments(listed, known, path)
    values: dict[int, int | tuple[int, ...]] = {j: j for j in range(len(classes))}
    if listed is not None:
        values = _listed_values(segments, found, path)
    unknown = sorted(found - set(values) - {0})
    if unknown:
        raise DataError(
            f"{path}: holds the value(s) {unknown}, but {_meaning(listed, values, classes)}. Store it again."
        )
    drawn = {values[value] for value in found - {0}}
    absent = {segment.meant for segment in segments if segment.kind == "absent"}
    if drawn & absent:
        raise DataError(f"{path}: a segment that is (absent) has voxels. Rename it or delete them, and store it again.")
    said = note.get("annotated")
    if as_bool(note.get("scribbles", False)) or any(segment.kind == "scribble" for segment in segments):
        return _scribbles(values, drawn, segments, said, classes, path)
    if said is None:
        told = (drawn | absent) - {0}
    elif isinstance(said, list):
        told = {known(name) for name in said}
        if 0 in told:
            raise DataError(f"{path}: {classes[0]!r} is not a structure that is drawn. Leave it out of `annotated`.")
    else:
        raise DataError(f"{path}: its `annotated` is {said!r}, but a list of names is needed. Store it again.")
    if not told:
        logger.warning(f"{path}: nothing is drawn in it, so nothing is learned from it.")
    # what is drawn of a union beside its own structures is none of these
    values, told = {v: _rest(m, told) for v, m in values.items()}, {_rest(m, told) for m in told}
    annotated = sorted(told, key=lambda meant: (meant,) if isinstance(meant, int) else meant)
    return {"values": {0: 0, **values}, "annotated": annotated}


def _rest(meant: int | tuple[int, ...], told: set[int | tuple[int, ...]]) -> int | tuple[int, ...]:
    """A union without the classes that are annotated on their own; as it is, if that leaves none."""
    if isinstance(meant, int) or meant not in told:
        return meant
    rest = tuple(j for j in meant if j not in told) or meant
    return rest if len(rest) > 1 else rest[0]


def _scribbles(
    values: Mapping[int, int | tuple[int, ...]],
    drawn: set[int | tuple[int, ...]],
    segments: Sequence[_Segment],
    said: Any,
    classes: Sequence[str],
    path: Path,
) -> Annotation:
    """What strokes say: their own voxels are known, and nothing else."""
    whole = [s.name for s in segments if s.kind in ("absent", "union") or (s.kind == "" and s.meant in drawn)]
    if any(segment.kind == "scribble" for segment in segments) and whole:
        raise DataError(f"{path}: has strokes, and {whole[0]!r} as a whole. Store one kind alone.")
    if said is not None:
        raise DataError(f"{path}: holds scribbles, so `annotated` cannot be given. Leave it out, and store it again.")
    strokes = {value: meant for value, meant in values.items() if value}
    unions = sorted({meant for meant in strokes.values() if not isinstance(meant, int)})
    return {"values": strokes, "annotated": [*range(1, len(classes)), *unions], "unlabelled": [0]}


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


KINDS = re.compile(r"(?P<stem>.*?)\s*\((?P<kind>absent|union|scribble)\)\s*", re.IGNORECASE)


class _Segment(NamedTuple):
    """A segment of a client: its name, its value in the client's list, what it is, and how it was drawn."""

    name: str
    idx: int
    meant: int | tuple[int, ...]
    kind: str


class _Names:
    """Class indices by the names that a client uses; MONAI Label tells it them in lower case."""

    def __init__(self, classes: Sequence[str], unions: Any, path: Path) -> None:
        self.classes, self.path = classes, path
        self.known: dict[str, int | tuple[int, ...]] = {name.lower(): j for j, name in enumerate(classes)}
        if not (unions is None or (isinstance(unions, Mapping) and all(isinstance(v, list) for v in unions.values()))):
            raise DataError(f"{path}: its `unions` is {unions!r}, but names with lists of names are needed.")
        for name, members in (unions or {}).items():
            self.known.setdefault(str(name).lower(), self("+".join(map(str, members))))

    def __call__(self, name: Any) -> int | tuple[int, ...]:
        """A class, or several."""
        text = str(name).strip().lower()
        if text in self.known:
            return self.known[text]
        members = [self.known.get(part.strip()) for part in text.split("+")]
        found = {member for member in members if isinstance(member, int)}
        if len(found) < 2 or len(found) < len(members) or 0 in found:
            raise DataError(
                f"{self.path}: shows a segment {name!r}, but the model knows {', '.join(self.classes[1:])}. Rename or "
                "delete it, and store the label again. Several structures as one: 'A+B (union)'."
            )
        return tuple(sorted(found))


def _segments(listed: Any, known: _Names, path: Path) -> list[_Segment]:
    """A client's list of segments."""
    try:
        named = [(str(entry["name"]), int(entry.get("idx", place))) for place, entry in enumerate(listed, 1)]
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise DataError(f"{path}: its label_info is damaged ({str(listed)[:80]}). Store the label again.") from error
    segments = []
    for name, idx in named:
        match = None if name.lower() in known.known else KINDS.fullmatch(name)
        kind = match["kind"].lower() if match else ""
        meant = known(match["stem"] if match else name)
        if kind == "union" and isinstance(meant, int):
            raise DataError(f"{path}: {name!r} is a single structure. Name several: 'A+B (union)', or send `unions`.")
        if kind == "absent" and meant == 0:
            raise DataError(f"{path}: {name!r}: the background is never absent. Delete the segment.")
        segments.append(_Segment(name, idx, meant, kind))
    meanings = [segment.meant for segment in segments]
    if len(set(meanings)) < len(meanings):
        raise DataError(f"{path}: label_info lists a structure twice ({[n for n, _ in named]}). Merge the segments.")
    return segments


def _listed_values(segments: Sequence[_Segment], found: set[int], path: Path) -> dict[int, int | tuple[int, ...]]:
    """Label value -> class index, or several of them, by a client's list of segments."""
    by_idx = {segment.idx: segment.meant for segment in segments}
    by_place = dict(enumerate((s.meant for s in segments if s.meant or s.kind), 1))
    # Slicer counts segments that it does not send (background, scribbles) in `idx`, but not in the file's values.
    fitting = [values for values in (by_idx, by_place) if found - {0} <= set(values)]
    drawn = [{value: values[value] for value in found - {0}} for values in fitting]
    if len(drawn) == 2 and drawn[0] != drawn[1]:
        shown = [(segment.name, segment.idx) for segment in segments]
        raise DataError(
            f"{path}: it is unclear whether its values {sorted(found - {0})} are the `idx` or the positions of "
            f"label_info {shown}. Delete the background and scribbles segments, and store the label again."
        )
    return fitting[0] if fitting else by_idx


def _meaning(listed: Any, values: Mapping[int, int | tuple[int, ...]], classes: Sequence[str]) -> str:
    said = {v: " or ".join(classes[j] for j in ([m] if isinstance(m, int) else m)) for v, m in sorted(values.items())}
    known = ", ".join(f"{value}: {name}" for value, name in said.items())
    return f"{'the classes are' if listed is None else 'its label_info says'} {known}"


StoredAnnotationD = StoredAnnotationDict = StoredAnnotationd
