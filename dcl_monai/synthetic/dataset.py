"""A folder of synthetic subjects that is complete, or says that it is not."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from dcl_monai.utils import DataError
from dcl_monai.utils.distributed import rank_by_rank
from dcl_monai.utils.files import write_atomic

MARKER_NAME = "phantom.json"
"""Name of the file that marks a folder as a complete data set of this package."""

_PARTIAL_MARKER_NAME = "phantom.incomplete.json"


class _Marker(NamedTuple):
    """What determines a data set."""

    version: int
    seed: int
    num_subjects: int


@dataclass(frozen=True, kw_only=True)
class Layout(ABC):
    """A kind of synthetic data set: what its subjects are, and where their files lie."""

    generator: str  # its name in the marker file
    version: int  # raised whenever the same seed gives other voxels; data sets of another version are rewritten
    subjects: str  # pattern of the names in the folder that a reader of the data set would take for subjects

    @abstractmethod
    def names(self, index: int) -> set[str]:
        """Names in the folder that belong to the subject ``index``, counted from 0."""

    @abstractmethod
    def is_complete(self, root: Path, index: int) -> bool:
        """Whether all files of a subject are there."""

    @abstractmethod
    def write(self, root: Path, index: int, seed: int) -> None:
        """Make a subject from its own seed and write its files, each in one step."""

    @abstractmethod
    def remove(self, root: Path, index: int) -> None:
        """Delete the files of a subject, and nothing else."""


@rank_by_rank
def write_dataset(layout: Layout, root: str | Path, num_subjects: int, seed: int, progress: bool) -> Path:
    """
    Write a synthetic data set.

    Subject ``i`` depends on ``(seed, i)`` only; a larger data set therefore begins with the subjects of a smaller one.
    The marker file ``phantom.json`` is written last. A finished data set of the same parameters is left as it is, an
    unfinished or smaller one is completed. A data set of the same kind with another seed, of another generator version
    or with more subjects is replaced. Files are moved into place only when they are whole.

    A folder that holds subjects or a marker that this function did not write is refused, and not changed.
    """
    root = Path(root)
    if num_subjects < 1:
        raise ValueError(f"num_subjects must be at least 1, got {num_subjects}.")
    if seed < 0:
        raise ValueError(f"seed must not be negative, got {seed}.")
    if root.exists() and not root.is_dir():
        raise DataError(f"{root} is a file: choose a folder for the synthetic data set.")
    wanted = _Marker(layout.version, int(seed), int(num_subjects))
    found, finished = _read_marker(root, layout) or (None, False)
    _refuse_foreign(root, layout, found.num_subjects if found else 0)

    pending = [i for i in range(num_subjects) if not layout.is_complete(root, i)]
    if finished and found == wanted and not pending:
        return root
    if found:
        # Until it is finished the folder carries the other marker, which keeps claiming the old subjects.
        _write_marker(root / _PARTIAL_MARKER_NAME, layout, found)
        (root / MARKER_NAME).unlink(missing_ok=True)
        same = (found.version, found.seed) == (wanted.version, wanted.seed)
        for i in range(num_subjects if same else 0, found.num_subjects):
            layout.remove(root, i)
        if not same:
            pending = list(range(num_subjects))
    _write_marker(root / _PARTIAL_MARKER_NAME, layout, wanted)
    for i in tqdm(pending, desc="synthetic hearts", unit="subject", disable=None if progress else True):
        layout.write(root, i, int(np.random.SeedSequence([seed, i]).generate_state(1, np.uint64)[0]))
    _write_marker(root / MARKER_NAME, layout, wanted)
    (root / _PARTIAL_MARKER_NAME).unlink(missing_ok=True)
    return root


def remove_files(folder: Path, pattern: str) -> None:
    """Delete the files in ``folder`` whose names fit the regular expression, and what is left of writing them."""
    own = re.compile(rf"\.?({pattern})(\.\d+\.tmp)?")
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.is_file() and own.fullmatch(path.name):
            path.unlink()


def _refuse_foreign(root: Path, layout: Layout, known: int) -> None:
    """Raise when ``root`` holds subjects besides the first ``known`` ones, which this module wrote."""
    own = {name for i in range(known) for name in layout.names(i)}
    foreign = sorted(path.name for path in root.glob(layout.subjects) if path.name not in own)
    if foreign:
        raise DataError(
            f"{root} holds subjects that the synthetic data generator did not write ({', '.join(foreign[:3])}"
            f"{', ...' if len(foreign) > 3 else ''}): choose an empty or new folder for the synthetic data set."
        )


def _read_marker(root: Path, layout: Layout) -> tuple[_Marker, bool] | None:
    """Read the marker of the data set in ``root`` and whether it was finished."""
    for name, complete in ((_PARTIAL_MARKER_NAME, False), (MARKER_NAME, True)):
        path = root / name
        if not path.is_file():
            continue
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if content["generator"] == layout.generator:
                return _Marker(*(int(content[key]) for key in _Marker._fields)), complete
        except (ValueError, KeyError, TypeError):
            pass
        raise DataError(f"{path} was not written by {layout.generator}: choose another folder or move that file away.")
    return None


def _write_marker(path: Path, layout: Layout, marker: _Marker) -> None:
    write_atomic(path, json.dumps({"generator": layout.generator, **marker._asdict()}, indent=2) + "\n")
