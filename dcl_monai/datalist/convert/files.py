"""What the converters share: finding files, and pairing images with labels."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from dcl_monai.datalist.yaml_file import read_file
from dcl_monai.utils import DataError

Note = Callable[[str], None]
"""Called with a sentence that the reader of a document should know."""
log: Note = logging.getLogger(__name__).info
"""Takes the sentences where nobody else does."""


def existing_folder(root: str | Path, holds: str) -> Path:
    """Return the absolute path of a folder; if there is none, say what it should hold."""
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
    Find files anywhere below a folder, by subject: ``subject2`` before ``subject10``.

    Args:
        root: the folder.
        expression: regular expression of a whole file name; its group ``subject`` tells whose file it is.
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


def refuse_unpaired(root: Path, images: Mapping[str, Path], labels: Mapping[str, Path]) -> None:
    """Refuse labels, by subject, that have no image, and images none of which has a label."""
    for subject, label in labels.items():
        if subject not in images:
            raise DataError(f"{label}: no image of this label is found below {root}. Add it, or take the label out.")
    if not labels:
        raise DataError(
            f"{root}: has {len(images)} image(s), but no label of them. Put the label files below the folder."
        )


def described(root: Path, images: Mapping[str, Path], labels: Mapping[str, Path], **said: Any) -> dict[str, Any]:
    """Describe the labelled images of a folder as a data set; ``said`` are its other entries."""
    items = [
        {"image": relative(images[subject], root), "label": relative(label, root), "subject": subject}
        for subject, label in labels.items()
    ]
    return {"folder": str(root), **said, "training": items}


def described_unlabelled(
    name: str, root: Path, images: Mapping[str, Path], usable: Collection[str], wanted: bool, note: Note
) -> dict[str, Any]:
    """
    Describe images without a label as a data set that is training as a whole: nothing could be measured on them.

    Nothing is described if they are not wanted. Only subjects that no folder keeps for validation or test are usable.
    """
    taken = [subject for subject in images if wanted and subject in usable]
    if taken:
        note(f"{len(taken)} image(s) without a label are training images of which nothing is known.")
    if len(taken) < len(images):
        also = "" if wanted or not usable else "; --unlabelled takes them in for training"
        also += ", but for those of validation and test" if also and len(usable) < len(images) else ""
        note(f"{len(images) - len(taken)} image(s) without a label are left out{also}.")
    items = [{"image": relative(images[subject], root), "subject": subject} for subject in taken]
    return {f"{name} unlabelled": {"folder": str(root), "split": "training", "training": items}} if taken else {}


def relative(path: Path, root: Path) -> str:
    """Path within the data set."""
    return path.relative_to(root).as_posix()
