"""TotalSegmentator: ``sNNNN/ct.nii.gz`` (or ``mri``) and a mask per structure, ``sNNNN/segmentations/NAME.nii.gz``."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from dcl_monai.datalist.schema import MAX_CLASSES, unknown_name
from dcl_monai.datalist.splits import SPLITS
from dcl_monai.utils import DataError

from .files import Note, existing_folder, log

IMAGES = ("ct", "mri", "mr", "image")
ENDINGS = (".nii.gz", ".nii")
MASKS = "segmentations"
SPLIT_NAMES = {"train": "training", "val": "validation", "test": "test"}
"""Splits by their names in ``meta.csv``."""


def convert_totalsegmentator(root: str | Path, structures: str | None = None, note: Note = log) -> dict[str, Any]:
    """
    Describe a folder in TotalSegmentator's layout: a folder per subject, with an image and a mask per structure.

    A mask that exists means annotated; one without a voxel, looked for and absent; one that is missing, not annotated.
    There may be ``meta.csv`` with its column ``split``. All structures are learned, unless names are given, separated
    by commas.
    """
    root = existing_folder(root, "s0001/ct.nii.gz, s0001/segmentations/liver.nii.gz, ...")
    subjects = {path.name: found for path in sorted(root.iterdir()) if (found := image_of(path)) is not None}
    if not subjects:
        raise DataError(
            f"{root}: no folder in it holds {' or '.join(f'{name}.nii.gz' for name in IMAGES[:2])} and {MASKS}/. Give "
            "the folder that holds s0001, s0002, ..."
        )
    masks = {subject: masks_of(root / subject / MASKS) for subject in subjects}
    there = sorted({name for found in masks.values() for name in found})
    chosen = there if structures is None else list(dict.fromkeys(word.strip() for word in structures.split(",")))
    for name in chosen:
        if name not in there:
            raise DataError(f"--structures: {unknown_name(name, there)}. Correct the name.")
    if not chosen or len(chosen) >= MAX_CLASSES:
        raise DataError(
            f"{root}: shows {len(chosen)} structures, a model has 1 to {MAX_CLASSES - 1}. Use --structures."
        )
    if len(chosen) < len(there):
        note(f"{len(there) - len(chosen)} other structure(s) are left out: they count as background.")
    items = {
        subject: {
            "image": f"{subject}/{image}",
            "subject": subject,
            "masks": {name: f"{subject}/{MASKS}/{found[name]}" for name in chosen if name in found},
        }
        for (subject, image), found in zip(subjects.items(), masks.values(), strict=True)
    }
    missing = sum(len(chosen) - len(item["masks"]) for item in items.values())
    if missing:
        note(f"{missing} mask(s) are missing: these structures are not annotated there.")
    lists = split_lists(root, items, note)
    entry: dict[str, Any] = {"folder": str(root), **lists}
    return {"classes": ["background", *chosen], "split": [60, 20, 20], "datasets": {"TotalSegmentator": entry}}


def image_of(folder: Path) -> str | None:
    """The image in the folder of a subject, if it is one."""
    names = [f"{name}{ending}" for name in IMAGES for ending in ENDINGS if (folder / f"{name}{ending}").is_file()]
    return names[0] if names and (folder / MASKS).is_dir() else None


def masks_of(folder: Path) -> dict[str, str]:
    """File names of the masks by structure."""
    files = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    return {name[: -len(end)]: name for end in ENDINGS for name in files if name.endswith(end)}


def split_lists(root: Path, items: dict[str, dict[str, Any]], note: Note) -> dict[str, list[dict[str, Any]]]:
    """Put the items into the splits that ``meta.csv`` names, if it names one for each, and all but the test."""
    rows: list[dict[str, str]] = []
    if (root / "meta.csv").is_file():
        text = (root / "meta.csv").read_text(encoding="utf-8-sig", errors="replace")
        rows = list(csv.DictReader(text.splitlines(), delimiter=";" if ";" in text.partition("\n")[0] else ","))
    named = {row.get("image_id") or "": SPLIT_NAMES.get((row.get("split") or "").strip().lower()) for row in rows}
    lists = {split: [item for name, item in items.items() if named.get(name) == split] for split in SPLITS}
    if all(named.get(name) for name in items) and lists["training"] and lists["validation"]:
        note("The splits are those of meta.csv.")
        return {split: members for split, members in lists.items() if members}
    return {"training": [*items.values()]}
