"""What is written down about the files of a datalist: small records, never arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

from dcl_monai.datalist.agreement import Choice
from dcl_monai.datalist.items import Split

__all__ = ["CaseRecord", "FileRecord", "Problem", "State"]


class State(Enum):
    """What the labels of an image say about a class."""

    PRESENT = "present"
    """annotated at every voxel, and seen."""
    ABSENT = "absent"
    """annotated at every voxel, and nowhere seen."""
    STROKES = "known in part"
    """seen at some voxels, unknown at others."""
    UNION = "in a union only"
    """drawn together with other structures, and not distinguished from them."""
    UNKNOWN = "not annotated"
    UNREAD = "error"
    """the files cannot be read or do not fit together, so nothing can be said."""


ANNOTATED = (State.PRESENT, State.ABSENT, State.STROKES)
SEEN = (State.PRESENT, State.STROKES)


@dataclass(frozen=True)
class Problem:
    """
    A mistake, or something that looks like one.

    Args:
        severity: an error forbids training, a warning does not.
        kind: what sort of problem it is, in a few words.
        message: one line that names the file, the value and the remedy.
    """

    severity: Literal["error", "warning"]
    kind: str
    message: str


@dataclass(frozen=True)
class FileRecord:
    """
    What the files of an image hold; read once, however many items use them.

    Args:
        image: the image's file.
        labels: its label files; none, one or more.
        shape: size of the image in voxels.
        spacing: size of a voxel in mm.
        orientation: where the axes point to, like ``LPS``.
        content: hash of the pixels.
        channels: number of channels.
        resampled: whether a channel lies on another grid than the first.
        unsized: whether it is a picture of which nobody says how large a pixel is.
        constant: whether all pixels have the same value.
        voxels: what every rater may have drawn at a voxel -> number of such voxels; empty after an error.
        strokes: voxels drawn where label values may be ``unlabelled``, and how many of them lie deep inside.
        problems: what is wrong with the files.
    """

    image: str
    labels: tuple[str, ...]
    shape: tuple[int, ...] = ()
    spacing: tuple[float, ...] = ()
    orientation: str = ""
    content: str = ""
    channels: int = 1
    resampled: bool = False
    unsized: bool = False
    constant: bool = False
    voxels: dict[tuple[Choice, ...], int] = field(default_factory=dict)
    strokes: tuple[int, int] = (0, 0)
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True)
class CaseRecord:
    """
    What an item of a datalist shows.

    Args:
        split: training, validation or test.
        dataset: data set it comes from.
        case: its name within the data set.
        subject: who it is.
        files: its files.
        states: what is known of every class.
        volumes: volume in ml of what is known to be of every class.
        known: part of the voxels of which it is known whether they are of the class, for every class.
        problems: what is wrong with the item beyond its files.
    """

    split: Split
    dataset: str
    case: str
    subject: str
    files: FileRecord
    states: tuple[State, ...]
    volumes: tuple[float, ...]
    known: tuple[float, ...] = ()
    problems: tuple[Problem, ...] = ()
