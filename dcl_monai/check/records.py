"""What is written down about the files of a datalist: small records, never arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

from dcl_monai.datalist.agreement import Choice
from dcl_monai.datalist.items import Split


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
    """A mistake, or something that looks like one."""

    severity: Literal["error", "warning"]
    """An error forbids training, a warning does not."""
    kind: str
    """What sort of problem it is, in a few words."""
    message: str
    """One line that names the file, the value and the remedy."""


@dataclass(frozen=True)
class FileRecord:
    """What the files of an image hold; read once, however many items use them."""

    image: str
    """The image's file."""
    labels: tuple[str, ...]
    """Its label files; none, one or more."""
    shape: tuple[int, ...] = ()
    """Size of the image in voxels."""
    spacing: tuple[float, ...] = ()
    """Size of a voxel in mm."""
    orientation: str = ""
    """Where the axes point to, like ``LPS``."""
    content: str = ""
    """Hash of the pixels."""
    channels: int = 1
    """Number of channels."""
    resampled: bool = False
    """Whether a channel lies on another grid than the first."""
    unsized: bool = False
    """Whether it is a picture of which nobody says how large a pixel is."""
    constant: bool = False
    """Whether all pixels have the same value."""
    voxels: dict[tuple[Choice, ...], int] = field(default_factory=dict)
    """What every rater may have drawn at a voxel -> number of such voxels; empty after an error."""
    strokes: tuple[int, int] = (0, 0)
    """Voxels drawn where label values may be ``unlabelled``, and how many of them lie deep inside."""
    problems: tuple[Problem, ...] = ()
    """What is wrong with the files."""


@dataclass(frozen=True)
class CaseRecord:
    """What an item of a datalist shows."""

    split: Split
    """Training, validation or test."""
    dataset: str
    """Data set it comes from."""
    case: str
    """Its name within the data set."""
    subject: str
    """Who it is."""
    files: FileRecord
    """Its files."""
    states: tuple[State, ...]
    """What is known of every class."""
    volumes: tuple[float, ...]
    """Volume in ml of what is known to be of every class."""
    known: tuple[float, ...] = ()
    """Part of the voxels of which it is known whether they are of the class, for every class."""
    problems: tuple[Problem, ...] = ()
    """What is wrong with the item beyond its files."""
