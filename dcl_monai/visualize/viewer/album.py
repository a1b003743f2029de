"""Which images a page shows, and what lies over them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from dcl_monai.datalist import Datalist, load_datalist, write_datalist
from dcl_monai.datalist.items import Item, annotations_of
from dcl_monai.datalist.splits import SPLITS
from dcl_monai.utils import DataError
from dcl_monai.utils.files import write_atomic

VIEW_FILE, DATALIST_FILE, REPORT_FILE = "view.json", "view_datalist.json", "report.json"
VERSION = 1
Kind = Literal["drawn", "filled", "prediction", "uncertainty"]


@dataclass(frozen=True)
class Layer:
    """
    What lies over an image.

    Args:
        title: its name on the page.
        kind: ``drawn`` and ``filled`` labels and a ``prediction`` are class indices and differ in style; of ``filled``
            only what is not drawn is shown. An ``uncertainty`` is a map of numbers; with one more axis than its image,
            the largest along it is shown.
        file: NIfTI file on the grid of the image; ``None``: the annotations of the image in the datalist.
    """

    title: str
    kind: Kind
    file: Path | None = None


@dataclass(frozen=True)
class Case:
    """
    An image of the page.

    Args:
        name: its name on the page.
        image: the file, or folder of a DICOM series.
        layers: what lies over it.
        note: a line about it.
        marked: whether somebody should look at it; its name is then red.
        point: voxel (i, j, k) of the file at which it is opened; default: where most is drawn.
        item: the entry of the datalist, for layers without a file.
    """

    name: str
    image: Path
    layers: Sequence[Layer] = ()
    note: str = ""
    marked: bool = False
    point: Sequence[int] | None = None
    item: Item | None = None


@dataclass(frozen=True)
class Album:
    """
    All that a page shows.

    Args:
        title: its title.
        classes: class names, background first.
        unions: name of a union -> its classes.
        cases: the images.
    """

    title: str
    classes: Sequence[str]
    cases: Sequence[Case]
    unions: Mapping[str, Sequence[int]] = field(default_factory=dict)


def find_album(path: str | Path) -> Album:
    """
    Find out what there is to see.

    Args:
        path: a folder with a ``view.json`` (``complete``, ``next``, ``audit``) or with the ``report.json`` of
            inference, or the file of a datalist.

    Raises:
        DataError: when there is none of these, or it cannot be read.
    """
    path = Path(path)
    if path.is_dir():
        for name, read in ((VIEW_FILE, _from_view), (REPORT_FILE, _from_report)):
            if (path / name).is_file():
                album = _read(path / name, read)
                break
        else:
            raise DataError(
                f"{path}: has neither {VIEW_FILE} nor {REPORT_FILE}. Give the output folder of predict, complete, next "
                "or audit, or the file of a datalist."
            )
    else:
        album = _from_datalist(load_datalist(path), str(path))
    if not album.cases:
        raise DataError(f"{path}: holds no image to show.")
    return album


def write_album(folder: str | Path, title: str, datalist: Datalist, cases: Sequence[Case]) -> None:
    """
    Write ``view.json``, by which ``dcl-monai view`` finds the images of a folder.

    Args:
        folder: the folder; files below it are written down relative to it.
        title: title of the page.
        datalist: all that the cases are from; it is kept beside, for what was drawn.
        cases: the images.
    """
    folder = Path(folder).resolve()
    write_datalist(datalist, folder / DATALIST_FILE, absolute=True)

    def named(file: Path) -> str:
        file = file.resolve()
        return str(file.relative_to(folder)) if file.is_relative_to(folder) else str(file)

    content = {
        "view_version": VERSION,
        "title": title,
        "cases": [
            {
                "name": case.name,
                "image": named(case.image),
                "note": case.note,
                "marked": case.marked,
                "point": None if case.point is None else [int(value) for value in case.point],
                "layers": [
                    {"title": layer.title, "kind": layer.kind} | ({"file": named(layer.file)} if layer.file else {})
                    for layer in case.layers
                ],
            }
            for case in cases
        ],
    }
    write_atomic(folder / VIEW_FILE, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def _read(path: Path, read: Any) -> Album:
    try:
        album: Album = read(json.loads(path.read_text(encoding="utf-8")), path.parent)
    except DataError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path}: cannot be read ({type(error).__name__}: {error}). Run the command again.") from error
    return album


def _from_view(content: Mapping[str, Any], folder: Path) -> Album:
    """The album of a ``view.json``."""
    if content["view_version"] != VERSION:
        raise DataError(f"{folder / VIEW_FILE}: is of another version of dcl_monai. Run the command again.")
    datalist = load_datalist(folder / DATALIST_FILE)
    items = {str(Path(item["image"]).resolve()): item for split in SPLITS for item in datalist[split]}
    cases = []
    for entry in content["cases"]:
        layers = [
            Layer(layer["title"], layer["kind"], folder / layer["file"] if "file" in layer else None)
            for layer in entry["layers"]
        ]
        if not {layer.kind for layer in layers} <= set(get_args(Kind)):
            raise ValueError("a layer of unknown kind")
        image = folder / entry["image"]
        item = items.get(str(image.resolve()))
        cases.append(Case(entry["name"], image, layers, entry["note"], entry["marked"], entry["point"], item))
    return Album(content["title"], datalist["classes"], cases, datalist["unions"])


def _from_report(content: Mapping[str, Any], folder: Path) -> Album:
    """The album of an inference."""
    run = content["run"]
    kinds: dict[str, Kind] = {"segmentation": "prediction", "uncertainty": "uncertainty"}
    cases = []
    for name, entry in content["files"].items():
        if entry["status"] != "done":
            continue
        outputs: Any = [
            (kind, entry["outputs"][output]) for output, kind in kinds.items() if output in entry["outputs"]
        ]
        layers = [Layer(kind, kind, folder / file) for kind, file in outputs]
        unusual = entry.get("unusual", [])
        cases.append(Case(name, Path(run["dataset_dir"]) / name, layers, "; ".join(unusual), bool(unusual)))
    return Album(f"predictions in {folder}", run["model"]["classes"], cases)


def _from_datalist(datalist: Datalist, title: str) -> Album:
    """The album of a datalist: what is drawn."""
    cases = []
    for split in SPLITS:
        for item in datalist[split]:
            layers = [Layer("drawn", "drawn")] if annotations_of(item) else []
            name = f"{item.get('dataset', '')} {item.get('case', item['subject'])}".strip()
            note = split if layers else f"{split}, not annotated"
            cases.append(Case(name, Path(item["image"]), layers, note, item=item))
    return Album(title, datalist["classes"], cases, datalist["unions"])
