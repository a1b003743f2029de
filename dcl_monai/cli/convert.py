"""Describe a public data set in its original layout as a datalist; no image is copied."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from dcl_monai.datalist import Datalist
from dcl_monai.datalist.convert import CONVERTERS
from dcl_monai.datalist.load import load_datalist
from dcl_monai.datalist.splits import SPLITS
from dcl_monai.utils import DataError
from dcl_monai.utils.files import write_atomic

from .arguments import refuse_existing

LAYOUTS = {
    "acdc": "patientNNN/patientNNN_frameFF.nii.gz, ..._gt.nii.gz and Info.cfg",
    "mscmr": "subjectN_DE.nii.gz with subjectN_DE_manual.nii.gz or subjectN_DE_scribble.nii.gz",
    "mmwhs": "mr_train_NNNN_image.nii.gz and mr_train_NNNN_label.nii.gz, or ct_...",
    "decathlon": "dataset.json of the Medical Segmentation Decathlon",
    "nnunet": "dataset.json, imagesTr and labelsTr of nnU-Net v2",
    "totalsegmentator": "sNNNN/ct.nii.gz and sNNNN/segmentations/NAME.nii.gz, a mask per structure",
}
UNLABELLED: dict[str, Any] = {
    "action": "store_true",
    "help": "use images without a label, too, as training images of which nothing is known",
}
OPTIONS: dict[str, dict[str, dict[str, Any]]] = {
    "mscmr": {
        "unlabelled": UNLABELLED,
        "order": {"metavar": "NAMES", "help": "what the values 1, 2, 3 are, like RV,MYO,LV, if the files do not tell"},
    },
    "mmwhs": {
        "unlabelled": UNLABELLED,
        "modality": {"choices": ["mr", "ct"], "help": "needed where the folder holds both"},
    },
    "nnunet": {"channel": {"type": int, "metavar": "N", "help": "number of the channel, if not all are used"}},
    "totalsegmentator": {
        "structures": {"metavar": "NAMES", "help": "structures to learn, like heart,liver (default: all)"}
    },
}
"""Options of a layout's converter, and how the command line takes them."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the layouts, each with its options."""
    layouts = parser.add_subparsers(dest="layout", required=True, metavar="layout")
    for name, files in LAYOUTS.items():
        layout = layouts.add_parser(
            name, help=files, description=f"Describe a data set as a datalist. Its layout: {files}."
        )
        layout.add_argument("source", metavar="SRC", type=Path, help="folder of the data set")
        layout.add_argument("out", metavar="OUT", type=Path, help="file to write: .yaml, .yml or .json")
        layout.add_argument("--force", action="store_true", help="overwrite OUT")
        layout.add_argument(
            "--relative", action="store_true", help="write paths relative to OUT, so that OUT and SRC can move together"
        )
        for option, settings in OPTIONS.get(name, {}).items():
            layout.add_argument(f"--{option}", **settings)


def run(arguments: argparse.Namespace) -> int:
    """Write the datalist, load it to prove that it works, and say what is in it."""
    out: Path = arguments.out
    check_place(out, arguments.source, arguments.force)
    options = {name: getattr(arguments, name) for name in OPTIONS.get(arguments.layout, {})}
    notes: list[str] = []
    document = CONVERTERS[arguments.layout](arguments.source, note=notes.append, **options)
    if arguments.relative:
        for dataset in document["datasets"].values():
            dataset["folder"] = relative_to(dataset["folder"], out.parent.resolve())
    made = f"Made by `{command(arguments.layout, options)}` from {arguments.source.resolve()}."
    write(document, out, [made, *(line for note in notes for line in textwrap.wrap(note, 116))])
    try:
        datalist = load_datalist(out)
    except DataError as error:
        raise DataError(f"{out} is written, but cannot be used as it is: {error}") from error
    print(f"{out}: {summary(datalist)}")
    for name, dataset in document["datasets"].items():
        if "values" in dataset:
            print(f"  {name}: label values", ", ".join(f"{value} {what}" for value, what in dataset["values"].items()))
    for note in notes:
        print(f"  {note}")
    print(f"next: python -m dcl_monai check {shlex.quote(str(out))}")
    return 0


def check_place(out: Path, source: Path, force: bool) -> None:
    """Refuse to write a file of another kind, over the data set's own list, or over any file unless ``force``."""
    if out.suffix.lower() not in (".yaml", ".yml", ".json"):
        raise DataError(f"{out}: the suffix {out.suffix!r} is unknown. Name a file that ends in .yaml, .yml or .json.")
    if out.resolve() == (source / "dataset.json").resolve():
        raise DataError(f"{out}: is the data set's own dataset.json. Choose another name for the datalist.")
    refuse_existing((out,), force)


def write(document: Mapping[str, Any], out: Path, comments: Sequence[str]) -> None:
    """Write a document as JSON, or as YAML for people to read: comments on top, one image per line."""
    if out.suffix.lower() == ".json":
        text = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
    else:
        options: dict[str, Any] = {"sort_keys": False, "default_flow_style": None, "width": float("inf")}
        text = "".join(f"# {' '.join(comment.split())}\n" for comment in comments)  # a path may hold a line break
        text += yaml.safe_dump(dict(document), allow_unicode=True, **options)
    try:
        write_atomic(out, text)
    except UnicodeError as error:  # JSON may hold halves of characters
        raise DataError(f"{out}: a name in the data set is not text ({error}). Rename it.") from error


def command(layout: str, options: Mapping[str, Any]) -> str:
    """The command as it was given, but for the files."""
    words = ["python -m dcl_monai convert", layout]
    for name, value in options.items():
        if value is True:
            words.append(f"--{name}")
        elif value is not None and value is not False:
            words.append(f"--{name} {value}")
    return " ".join(words)


def relative_to(folder: str, start: Path) -> str:
    """Path of a folder as seen from another one, so that both can move together."""
    try:
        return Path(os.path.relpath(folder, start)).as_posix()
    except ValueError:  # another drive, on Windows
        return folder


def summary(datalist: Datalist) -> str:
    """Count images and subjects, and name the classes."""
    items = [item for split in SPLITS for item in datalist[split]]
    parts = ", ".join(f"{split} {len(datalist[split])}" for split in SPLITS)
    lines = [
        f"{len(items)} images of {len({item['subject'] for item in items})} subjects ({parts})",
        f"classes {', '.join(datalist['classes'])}",
    ]
    for union, members in datalist["unions"].items():
        lines.append(f"union {union} = {' + '.join(datalist['classes'][j] for j in members)}")
    return "\n  ".join(lines)
