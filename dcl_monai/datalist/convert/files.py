"""What the converters share: finding files, and pairing images with labels."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dcl_monai.datalist.yaml_file import read_file
from dcl_monai.utils import DataError

__all__ = ["Note", "existing_folder", "files_by_subject", "paired_datasets", "read_dataset_json"]

Note = Callable[[str], None]
"""Called with a sentence that the reader of a document should know."""


def existing_folder(root: str | Path, holds: str) -> Path:
    """
    Return the absolute path of a folder.

    Args:
        root: the folder.
        holds: what it should hold, for the message.

    Raises:
        DataError: when there is no such folder.
    """
    root = Path(root).expanduser()
    if not root.is_dir():
        raise DataError(f"{root}: no such folder. Give the folder that holds {holds}.")
    return root.resolve()


def read_dataset_json(root: Path) -> dict[str, Any]:
    """Read the ``dataset.json`` of a folder."""
    if not (root / "dataset.json").is_file():
        raise DataError(
            f"{root}: no dataset.json in it. Give the folder that holds dataset.json, imagesTr and labelsTr."
        )
    return read_file(root / "dataset.json")


def files_by_subject(root: Path, expression: str) -> dict[str, Path]:
    """
    Find files anywhere below a folder by their names.

    Args:
        root: the folder.
        expression: regular expression of a whole file name; its group ``subject`` tells whose file it is.

    Returns:
        the files by subject, ``subject2`` before ``subject10``.

    Raises:
        DataError: when there are two of one subject.
    """
    found: dict[str, Path] = {}
    for path in sorted(root.rglob("*")):
        match = re.fullmatch(expression, path.name)
        if match is None or not path.is_file():
            continue
        other = found.setdefault(match["subject"], path)
        if other is not path:
            raise DataError(f"{path}: {other} is the same by its name. Keep one of them below {root}.")
    return dict(sorted(found.items(), key=lambda entry: (len(entry[0]), entry[0])))


def paired_datasets(
    name: str,
    root: Path,
    images: Mapping[str, Path],
    labels: Mapping[str, Path],
    values: Mapping[int, str],
    unlabelled: bool,
    note: Note,
) -> dict[str, Any]:
    """
    Describe images and their labels as the ``datasets`` of a document.

    Args:
        name: name of the data set.
        root: its folder.
        images: image files by subject.
        labels: label files by subject.
        values: label value -> class.
        unlabelled: whether images without a label are used, too. They become a data set of their own that is training
            as a whole: nothing could be measured on them.
        note: called with how many images have no label.

    Raises:
        DataError: when a label has no image, or no image has a label.
    """
    for subject, label in labels.items():
        if subject not in images:
            raise DataError(f"{label}: no image of this label is found below {root}. Add it, or take the label out.")
    if not labels:
        raise DataError(
            f"{root}: has {len(images)} image(s), but no label of them. Put the label files below the folder."
        )

    def relative(path: Path) -> str:
        return path.relative_to(root).as_posix()

    datasets: dict[str, Any] = {
        name: {
            "folder": str(root),
            "values": dict(values),
            "training": [
                {"image": relative(images[subject]), "label": relative(label), "subject": subject}
                for subject, label in labels.items()
            ],
        }
    }
    blank = [subject for subject in images if subject not in labels]
    if blank and unlabelled:
        datasets[f"{name} unlabelled"] = {
            "folder": str(root),
            "split": "training",
            "training": [{"image": relative(images[subject]), "subject": subject} for subject in blank],
        }
        note(f"{len(blank)} image(s) without a label are training images of which nothing is known.")
    elif blank:
        note(f"{len(blank)} image(s) without a label are left out; --unlabelled takes them in for training.")
    return datasets
