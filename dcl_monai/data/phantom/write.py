"""A data set of synthetic subjects in the layout of the ACDC challenge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from dcl_monai.utils import DataError
from dcl_monai.utils.files import write_atomic

from .anatomy import GROUPS
from .folder import remove_subject, subject_folder, subject_is_complete, write_subject
from .subject import GENERATOR_VERSION, synthesize_subject

__all__ = ["MARKER_NAME", "write_synthetic_acdc"]

MARKER_NAME = "phantom.json"
"""Name of the file that marks a folder as a complete data set of this package."""

_PARTIAL_MARKER_NAME = "phantom.incomplete.json"
_GENERATOR_NAME = "dcl_monai.data.phantom"


class _Marker(NamedTuple):
    """What determines a data set."""

    version: int
    seed: int
    num_subjects: int


def write_synthetic_acdc(root: str | Path, num_subjects: int = 40, seed: int = 0, progress: bool = True) -> Path:
    """
    Write a synthetic data set in the layout of the ACDC challenge.

    Subject ``i`` depends on ``(seed, i)`` only, and the diagnosis groups take turns; a larger data set therefore
    begins with the subjects of a smaller one. Each subject gets a folder::

        patient001/Info.cfg
        patient001/patient001_frame01.nii.gz      (ED image, int16)
        patient001/patient001_frame01_gt.nii.gz   (ED label map, uint8)
        patient001/patient001_frame08.nii.gz      (ES, the frame number varies)
        patient001/patient001_frame08_gt.nii.gz

    The marker file ``phantom.json`` is written last. A finished data set of the same parameters is left as it is, an
    unfinished or smaller one is completed. A data set that this function wrote with another seed, with another
    generator version or with more subjects is replaced. Files are moved into place only when they are whole.

    Args:
        root: folder of the data set; made when missing.
        num_subjects: number of subjects, at least 1.
        seed: non-negative seed of the data set.
        progress: whether to show a progress bar on stderr.

    Returns:
        The folder.

    Raises:
        ValueError: when an argument is out of range.
        DataError: when ``root`` is not a folder or holds patients or a marker that this function did not write;
            nothing is changed then.
    """
    root = Path(root)
    if num_subjects < 1:
        raise ValueError(f"num_subjects must be at least 1, got {num_subjects}.")
    if seed < 0:
        raise ValueError(f"seed must not be negative, got {seed}.")
    if root.exists() and not root.is_dir():
        raise DataError(f"{root} is a file: choose a folder for the synthetic data set.")
    wanted = _Marker(GENERATOR_VERSION, int(seed), int(num_subjects))
    found, finished = _read_marker(root) or (None, False)
    _refuse_foreign(root, found.num_subjects if found else 0)

    pending = [i for i in range(num_subjects) if not subject_is_complete(subject_folder(root, i))]
    if finished and found == wanted and not pending:
        return root
    if found:
        # Until it is finished the folder carries the other marker, which keeps claiming the old subjects.
        _write_marker(root / _PARTIAL_MARKER_NAME, found)
        (root / MARKER_NAME).unlink(missing_ok=True)
        same = (found.version, found.seed) == (wanted.version, wanted.seed)
        for i in range(num_subjects if same else 0, found.num_subjects):
            remove_subject(subject_folder(root, i))
        if not same:
            pending = list(range(num_subjects))
    _write_marker(root / _PARTIAL_MARKER_NAME, wanted)
    for i in tqdm(pending, desc="synthetic hearts", unit="subject", disable=None if progress else True):
        subject_seed = int(np.random.SeedSequence([seed, i]).generate_state(1, np.uint64)[0])
        write_subject(subject_folder(root, i), synthesize_subject(subject_seed, GROUPS[i % len(GROUPS)]))
    _write_marker(root / MARKER_NAME, wanted)
    (root / _PARTIAL_MARKER_NAME).unlink(missing_ok=True)
    return root


def _refuse_foreign(root: Path, known: int) -> None:
    """Raise when ``root`` holds patients besides the first ``known`` ones, which this module wrote."""
    own = {subject_folder(root, i).name for i in range(known)}
    foreign = sorted(path.name for path in root.glob("patient*") if path.name not in own)
    if foreign:
        raise DataError(
            f"{root} holds patients that the synthetic data generator did not write ({', '.join(foreign[:3])}"
            f"{', ...' if len(foreign) > 3 else ''}): choose an empty or new folder for the synthetic data set."
        )


def _read_marker(root: Path) -> tuple[_Marker, bool] | None:
    """Read the marker of the data set in ``root`` and whether it was finished."""
    for name, complete in ((_PARTIAL_MARKER_NAME, False), (MARKER_NAME, True)):
        path = root / name
        if not path.is_file():
            continue
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if content["generator"] == _GENERATOR_NAME:
                return _Marker(*(int(content[key]) for key in _Marker._fields)), complete
        except (ValueError, KeyError, TypeError):
            pass
        raise DataError(f"{path} was not written by {_GENERATOR_NAME}: choose another folder or move that file away.")
    return None


def _write_marker(path: Path, marker: _Marker) -> None:
    write_atomic(path, json.dumps({"generator": _GENERATOR_NAME, **marker._asdict()}, indent=2) + "\n")
