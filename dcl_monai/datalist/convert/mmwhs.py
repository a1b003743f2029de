"""MM-WHS: ``{mr,ct}_train_NNNN_image.nii.gz`` and ``..._label.nii.gz``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dcl_monai.utils import DataError

from .files import Note, described, described_unlabelled, existing_folder, files_by_subject, log, refuse_unpaired

CLASSES = ["background", "LV", "MYO", "RV", "LA", "RA", "AO", "PA"]
VALUES = {
    0: "background",
    205: "MYO",
    420: "LA",
    421: "LA",  # a slip in some of the published labels
    500: "LV",
    550: "RA",
    600: "RV",
    820: "AO",
    850: "PA",
}


def convert_mmwhs(
    root: str | Path, modality: str | None = None, unlabelled: bool = False, note: Note = log
) -> dict[str, Any]:
    """
    Describe the images of one modality of MM-WHS, split 20/10/30 as in the paper (in proportion to what is labelled).

    Args:
        root: folder that holds images and labels, at any depth.
        modality: ``"mr"`` or ``"ct"``; default: the one that is there.
        unlabelled: whether images without a label (the challenge's test images) are used for training, too.
        note: called with a sentence about what is left out.

    Raises:
        DataError: when a file is missing, or both modalities are there and none is chosen.
    """
    root = existing_folder(root, "mr_train_1001_image.nii.gz, mr_train_1001_label.nii.gz, ...")
    found = {kind: files_by_subject(root, name_of(kind, "image")) for kind in ("mr", "ct")}
    there = [kind for kind, images in found.items() if images]
    if not there:
        raise DataError(f"{root}: no mr_train_NNNN_image.nii.gz below it, nor ct. Give the folder of MM-WHS' images.")
    if modality is None and len(there) > 1:
        raise DataError(f"{root}: holds MR and CT images. Choose with --modality mr or --modality ct.")
    modality = modality or there[0]
    if modality not in there:
        raise DataError(f"{root}: no image of modality {modality!r} below it, only of {there[0]!r}. Choose that one.")
    images, labels = found[modality], files_by_subject(root, name_of(modality, "label"))
    refuse_unpaired(root, images, labels)
    name = f"MM-WHS {modality.upper()}"
    blank = {subject: path for subject, path in images.items() if subject not in labels}
    return {
        "classes": list(CLASSES),
        "unions": {"whole heart": CLASSES[1:]},
        "split": [20, 10, 30],
        "datasets": {
            name: described(root, images, labels, values=dict(VALUES)),
            **described_unlabelled(name, root, blank, blank, unlabelled, note),
        },
    }


def name_of(modality: str, kind: str) -> str:
    """Regular expression of the file names of a modality's images or labels."""
    return rf"(?P<subject>{modality}_(train|test)_\d+)_{kind}\.nii(\.gz)?"
