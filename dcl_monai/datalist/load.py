"""Reading datalists and writing them: from a user's file to items, and back to disk with a hash."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from dcl_monai.utils import DataError
from dcl_monai.utils.files import write_atomic

from .forms import add_forms
from .items import Datalist, Item, UndividedItem, annotation_table, annotations_of, channels_of
from .labels import LabelMeaning
from .schema import MAX_CLASSES, DatalistDocument, parse_document
from .sources import decathlon_entry, list_items, merge_annotations
from .splits import SPLITS, split_subjects
from .yaml_file import read_file

VERSION = 1
FORMS = ("overlap", "disagreement", "annotated_slices", "uncertain_border")
"""Entries of an annotation that say more than its label values do."""


def load_datalist(source: str | Path | Mapping[str, Any], folder: str | Path = ".") -> Datalist:
    """
    Read a datalist: a user's YAML or JSON file, a Decathlon ``dataset.json``, or a file of :func:`write_datalist`.

    Args:
        source: the file, or its content.
        folder: folder that the content's paths are relative to; a file's own folder, for a file.

    Returns:
        the datalist.

    Raises:
        DataError: that names the file, the entry and the remedy.
    """
    if isinstance(source, (str, Path)):
        content, name, folder = read_file(source), Path(source), Path(source).resolve().parent
    else:
        content, name, folder = dict(source), Path("datalist"), Path(folder).resolve()
    if "datalist_version" in content:
        return _from_disk(content, name, folder)
    if "datasets" not in content and any(content.get(split) for split in SPLITS):
        content = decathlon_document(content, name)
    return resolve(parse_document(content, name), folder, name)


def resolve(document: DatalistDocument, folder: Path, name: str | Path = "datalist") -> Datalist:
    """Turn a user's description into a datalist."""
    items: list[UndividedItem] = []
    for dataset, entry in document.datasets.items():
        where = f"{name}: data set {dataset!r}"
        found, entry = list_items(dataset, entry, folder, where)
        meaning = LabelMeaning(
            document.classes, document.unions, entry.values, entry.annotated, where, entry.names, entry.overlap
        )
        for item in add_forms(meaning.annotate(found), entry, where):
            if len(document.datasets) > 1:  # patient 1 of one hospital is not patient 1 of the next
                item["subject"] = f"{dataset}/{item['subject']}"
            items.append(item)
    datalist: Datalist = {
        "classes": list(document.classes),
        "unions": {union: sorted(map(document.classes.index, names)) for union, names in document.unions.items()},
        "training": [],
        "validation": [],
        "test": [],
    }
    if document.minutes:
        datalist["minutes"] = dict(document.minutes)
    channels = name_channels(document.channels, items, name)
    if channels:
        datalist["channels"] = channels
    divided: dict[str, list[Item]] = {}
    for item in merge_annotations(items):
        fixed = item.pop("split")
        (datalist[fixed] if fixed else divided.setdefault(item["dataset"], [])).append(item)
    for dataset, members in divided.items():
        parts = document.datasets[dataset].split
        parts = parts if isinstance(parts, list) else document.split
        where = f"{name}: data set {dataset!r}"
        for split, chosen in split_subjects(members, parts, document.seed, where).items():
            datalist[split] += chosen
    return datalist


def name_channels(named: Sequence[str] | None, items: Sequence[UndividedItem], name: str | Path) -> list[str]:
    """Names of the channels of an image; none where there is one file per image and the user names no channel."""
    most = max((len(item.get("further_images", ())) for item in items), default=0) + 1
    for item in items:
        files = len(item.get("further_images", ())) + 1
        if files != most:
            raise DataError(
                f"{item['image']}: has {files} channel(s), others of {name} have {most}. A network takes the same "
                "channels of every image: add the missing files, or leave images or channels out."
            )
    if named and 1 < most != len(named):
        raise DataError(
            f"{name}, `channels`: names {len(named)}, but images have {most} files. Name each channel once."
        )
    return list(named) if named else [f"channel {k + 1}" for k in range(most)] if most > 1 else []


def decathlon_document(content: Mapping[str, Any], name: Path) -> dict[str, Any]:
    """Bring a Decathlon-style list (``labels`` or ``classes``, and ``training``, ...) into the general form."""
    entry = decathlon_entry(content, name)
    classes = content.get("classes")
    if "values" not in entry:
        if not isinstance(classes, list):
            raise DataError(f"{name}: `labels`, like {{0: background, 1: RV}}, is missing. Say what each value means.")
        entry["values"] = dict(enumerate(classes))
    elif classes is None and "values" not in content:
        classes = list(entry["values"].values())
    document = {key: content[key] for key in ("unions", "channels", "split", "seed", "minutes") if key in content}
    return {**document, "classes": classes, "datasets": {str(content.get("name") or name.stem): entry}}


def datalist_hash(datalist: Datalist) -> str:
    """
    SHA-256 of a datalist, so that two papers can say that they used the same partial data.

    It covers classes, splits, subjects, cases and what the label values of each say; not where the files lie.
    """
    num_classes = len(datalist["classes"])

    def canonical(item: Item) -> dict[str, list[Any]]:
        told = []
        for place, annotation in enumerate(annotations_of(item)):
            table = sorted(annotation_table(annotation, num_classes).items())
            forms = {key: value for key, value in annotation.items() if key in FORMS}
            order = [place] if annotation.get("overlap") == "first" else []
            told.append([table, annotation.get("content"), *([forms, *order] if forms else [])])
        return {"case": [item.get("dataset"), item.get("case"), item["subject"]], "annotations": sorted(told, key=repr)}

    content: dict[str, list[str]] = {
        split: sorted(json.dumps(canonical(item)) for item in datalist[split]) for split in SPLITS
    }
    content["classes"] = datalist["classes"]
    if len(channels_of(datalist)) > 1:
        content["channels"] = channels_of(datalist)
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def write_datalist(datalist: Datalist, path: str | Path, absolute: bool = False) -> str:
    """
    Write a datalist to disk, with class names and with paths relative to the file; return its hash.

    The file can be given wherever a datalist is asked for, on another machine too if the data lies at the same place
    beside it.

    Args:
        datalist: the datalist.
        path: the file.
        absolute: write absolute paths instead, for a file that will be moved while the data stays.
    """
    classes, folder = datalist["classes"], Path(path).resolve().parent
    digest = datalist_hash(datalist)

    def written(file: str) -> str:
        return os.path.abspath(file) if absolute else os.path.relpath(os.path.abspath(file), folder)

    content: dict[str, Any] = {
        "datalist_version": VERSION,
        "hash": digest,
        "classes": classes,
        "unions": {union: [classes[j] for j in members] for union, members in datalist.get("unions", {}).items()},
        **({"channels": datalist["channels"]} if "channels" in datalist else {}),
        **{split: [_renamed(item, written, classes.__getitem__, str) for item in datalist[split]] for split in SPLITS},
    }
    write_atomic(path, json.dumps(content, indent=1, ensure_ascii=False))
    return digest


def _renamed(
    item: Mapping[str, Any], path: Callable[[str], str], name: Callable[[Any], Any], value: type
) -> dict[str, Any]:
    """
    An item, or one of its further annotations, brought from memory to disk or back.

    ``path`` and ``name`` turn a path, and a class, into the other form; ``value`` is the type of label values there.
    """

    def names(entries: Any) -> list[Any]:
        return [name(entry) if isinstance(entry, (int, str)) else [name(one) for one in entry] for entry in entries]

    forms: dict[str, Callable[[Any], Any]] = {
        "image": path,
        "label": path,
        "further_images": lambda paths: [path(further) for further in paths],
        "annotated": names,
        "drawn": names,
        "values": lambda values: {value(key): names(members) for key, members in values.items()},
        "further_labels": lambda others: [_renamed(other, path, name, value) for other in others],
    }
    return {key: forms[key](entry) if key in forms else entry for key, entry in item.items()}


def _from_disk(content: Mapping[str, Any], name: Path, folder: Path) -> Datalist:
    if content["datalist_version"] != VERSION:
        raise DataError(
            f"{name}: datalist_version {content['datalist_version']!r} is not {VERSION}, the one this version of "
            "dcl_monai writes. Make the file again."
        )
    try:
        classes = list(content["classes"])
        if len(classes) > MAX_CLASSES:
            raise DataError(f"{name}: has {len(classes)} classes, a model has {MAX_CLASSES} at most. Leave some out.")

        def read(file: str) -> str:
            return os.path.normpath(folder / file)

        splits = {split: [_renamed(item, read, classes.index, int) for item in content[split]] for split in SPLITS}
        unions = {union: [classes.index(n) for n in names] for union, names in content["unions"].items()}
        datalist = cast(Datalist, {"classes": classes, "unions": unions, **splits})
        if "channels" in content:
            datalist["channels"] = [str(name) for name in content["channels"]]
        if not all("image" in item for split in SPLITS for item in datalist[split]):
            raise KeyError("image")
        digest = datalist_hash(datalist)
    except DataError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(
            f"{name}: was changed by hand and is inconsistent. Make it again, or write a file in the form of "
            "docs/start/own_data.md."
        ) from error
    if digest != content.get("hash"):
        raise DataError(
            f"{name}: its content has the hash {digest[:12]}, but it says {str(content.get('hash'))[:12]}: the file "
            "was changed by hand. Make it again."
        )
    return datalist
