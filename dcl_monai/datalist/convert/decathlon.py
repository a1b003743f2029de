"""Medical Segmentation Decathlon: ``dataset.json`` with ``labels`` value -> name and a ``training`` list."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dcl_monai.datalist.load import decathlon_document
from dcl_monai.datalist.schema import parse_document
from dcl_monai.datalist.splits import SPLITS
from dcl_monai.utils import DataError

from .files import Note, existing_folder, log, read_dataset_json


def convert_decathlon(root: str | Path, note: Note = log) -> dict[str, Any]:
    """
    Describe a task of the Decathlon, split 60/20/20; the test images, which have no public labels, are left out.

    The ``dataset.json`` of nnU-Net v1 has the same form, but its images end on ``_0000``; they are found, too.
    """
    root = existing_folder(root, "dataset.json, imagesTr and labelsTr")
    path = root / "dataset.json"
    content = read_dataset_json(root)
    if not content.get("training"):
        raise DataError(f"{path}: lists no `training` image. For nnU-Net v2, use `python -m dcl_monai convert nnunet`.")
    name = str(content.get("name") or root.name)
    document = decathlon_document(content | {"name": name}, path)
    entry = parse_document(document, path).datasets[name]
    if 0 not in (entry.values or {}):
        raise DataError(f'{path}: `labels` has no 0. Add the background\'s name, like "0": "background".')
    modality = content.get("modality")
    channels = [str(name) for name in modality.values()] if isinstance(modality, Mapping) else []
    listed = {
        split: [item.model_dump(exclude_none=True) for item in getattr(entry, split)]
        for split in SPLITS
        if getattr(entry, split)
    }
    if "validation" not in listed and not any("label" in item for item in listed.get("test", ())):
        tests = listed.pop("test", ())  # the datalist leaves them out, too
        if tests:
            note(f"{len(tests)} test image(s) are left out, as they have no labels.")
    found = {split: [find_item(root, item) for item in items] for split, items in listed.items()}
    note(
        "Every image counts as a subject of its own, unless the list says otherwise. Where several are of one person, "
        "give these the same `subject` in the list."
    )
    said = {key: value for key, value in document["datasets"][name].items() if key not in SPLITS}
    files = {"list": "dataset.json"} if found == listed else found
    return {
        "classes": document["classes"],
        **({"channels": channels} if len(channels) > 1 else {}),
        "split": [60, 20, 20],
        **{key: document[key] for key in ("unions", "split", "seed") if key in document},
        "datasets": {name: {"folder": str(root), **said, **files}},
    }


def find_item(root: Path, item: Mapping[str, Any]) -> dict[str, Any]:
    """Make sure that the files of an item are there; an image may have nnU-Net's ``_0000`` in its name."""
    found = dict(item)
    if not os.path.exists(root / item["image"]):
        found["image"] = re.sub(r"(\.nii(\.gz)?)$", r"_0000\1", item["image"])
    for key in ("image", "label"):
        if key in item and not os.path.exists(root / found[key]):
            raise DataError(
                f"{root / 'dataset.json'}: lists {item[key]!r} as {key}, but there is no such file. Add it or correct "
                "the list."
            )
    return found
