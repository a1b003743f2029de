"""What proposals and audits write: a table, a page with pictures, and the maps that the viewer shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import nibabel as nib
import numpy as np
import torch
from matplotlib.figure import Figure

from dcl_monai.datalist import Datalist, Item
from dcl_monai.datalist.items import annotations_of
from dcl_monai.utils import DataError
from dcl_monai.utils.files import write_atomic
from dcl_monai.utils.images import save_like
from dcl_monai.utils.page import render_page
from dcl_monai.visualize.png import as_png
from dcl_monai.visualize.viewer import Case, Layer, write_album
from dcl_monai.visualize.viewer.album import Kind

from .predict import Prediction

UNFINISHED = "unfinished"
LEFT_BACK_UP = nib.orientations.axcodes2ornt(("L", "P", "S"))
PAGE = """{% extends "page" %}
{% block title %}{{ title }}{% endblock %}
{% block style %}
h2 { font-size: 1rem; margin: 0 0 .3rem; border: 0; overflow-wrap: anywhere; }
code { background: #f2f2f2; padding: .1rem .3rem; }
.rows { display: grid; grid-template-columns: repeat(auto-fill, minmax(20rem, 1fr)); gap: 1rem; margin-top: 1rem; }
.row { border: 1px solid #ddd; padding: .7rem; break-inside: avoid; }
{% endblock %}
{% block body %}
<h1>{{ title }}</h1>
<p>{{ summary }}</p>
{% for note in notes %}<p class="note">{{ note }}</p>
{% endfor %}<div class="rows">
{% for row in rows %}<div class="row"><h2>{{ loop.index }}. {{ row.title }}</h2><p>{{ row.text }}</p>
{% if row.picture %}<img alt="{{ row.title }}" src="data:image/png;base64,{{ row.picture }}">{% endif %}
<p class="small">{{ row.details }}</p></div>
{% endfor %}</div>
<p class="small">The patient's left is on the right, here and in the viewer.</p>
<p class="small">Slice by slice: <code>python -m dcl_monai view {{ folder }}</code>. dcl-monai {{ version }}</p>
{% endblock %}
"""


@dataclass(frozen=True)
class Row:
    """A row of a page."""

    title: str  # image and structure
    text: str  # what to do or to look at
    details: str  # numbers
    picture: str = ""  # PNG in base64


@contextmanager
def new_folder(folder: Path) -> Iterator[None]:
    """Make a folder, and mark it as unfinished until the block ends well; refuse one that is neither new nor marked."""
    mark = folder / UNFINISHED
    if folder.exists() and not mark.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"{folder}: exists already. Give another --out, or move it away: nothing is overwritten.")
    write_atomic(mark, "The command that writes this folder has not ended. Run it again.\n")
    yield
    mark.unlink()


def case_name(item: Item) -> str:
    """Name of an image for tables and pages."""
    return f"{item.get('dataset', '')} {item.get('case', item['subject'])}".strip()


def draw_slice(
    image: np.ndarray,
    masks: Mapping[str, tuple[np.ndarray, str, str]],
    point: Sequence[int],
    axis: int,
    affine: np.ndarray,
    heat: np.ndarray | None = None,
) -> str:
    """
    Draw outlines over a slice, turned as radiologists look at it and as the viewer shows it.

    Args:
        image: grey values (H, W, D).
        masks: name -> mask (H, W, D), colour and line style.
        point: voxel that the picture is centred on.
        axis: axis that counts slices.
        affine: from voxels to mm.
        heat: numbers from 0 to 1 that are drawn over the image, (H, W, D).

    Returns:
        a PNG file in base64.
    """
    number = int(point[axis])
    low, high = np.percentile(image.take(number, axis), (1, 99))
    turn = nib.orientations.ornt_transform(nib.orientations.io_orientation(affine), LEFT_BACK_UP)
    place = np.linalg.inv(nib.orientations.inv_ornt_aff(turn, image.shape)) @ [*point, 1]
    across = int(turn[axis, 0])
    centre = [round(place[other]) for other in range(3) if other != across]

    def cut(volume: np.ndarray) -> np.ndarray:
        rows = nib.orientations.apply_orientation(volume, turn).take(round(place[across]), across)
        half = [max(24, n // 3) for n in rows.shape]
        spans = [slice(max(0, c - h), c + h) for c, h in zip(centre, half, strict=True)]
        part = rows[spans[0], spans[1]].T
        return part if across == 2 else part[::-1]  # heads are up

    figure = Figure(figsize=(3, 3), layout="constrained")
    axes = figure.subplots()
    axes.imshow(cut(image), cmap="gray", vmin=low, vmax=max(high, low + 1e-6))
    if heat is not None:
        part = cut(heat)
        axes.imshow(np.ma.masked_less(part, 0.05), cmap="autumn", vmin=0, vmax=0.5, alpha=0.5)
    for name, (mask, colour, style) in masks.items():
        part = cut(mask.astype(np.uint8))
        if 0 < part.sum() < part.size and min(part.shape) > 1:
            axes.contour(part, levels=[0.5], colors=[colour], linestyles=[style], linewidths=1.2)
        axes.plot([], [], color=colour, linestyle=style, label=name)
    axes.set_axis_off()
    axes.set_title(f"slice {number + 1}", fontsize=7)
    if masks:
        figure.legend(fontsize=7, facecolor="0.75", loc="outside lower center", ncols=len(masks))
    return as_png(figure)


def write_page(
    path: Path, title: str, summary: str, rows: Sequence[Row], folder: Path, notes: Sequence[str] = ()
) -> None:
    """Write the page, pictures included."""
    text = render_page(PAGE, title=title, summary=summary, rows=rows, notes=notes, folder=folder)
    write_atomic(path, text)


def write_view(
    folder: Path,
    title: str,
    datalist: Datalist,
    shown: Sequence[tuple[Prediction, str, bool, Sequence[int]]],
    within: bool,
) -> None:
    """
    Write label maps and uncertainty of images, and what the viewer shows of them.

    Args:
        folder: the folder.
        title: of the page.
        datalist: where the images are from.
        shown: prediction, note, mark and voxel of each image.
        within: whether the prediction keeps what is drawn.
    """
    cases = []
    for number, (prediction, note, marked, point) in enumerate(shown):
        given = prediction.within_sets() if within else prediction.probabilities
        labels = given.argmax(0).numpy().astype(np.uint8)
        total = given.sum(0)  # below one outside of the field of view, and at its border
        unsure = torch.where(total > 0.5, 1 - given.max(0).values / total.clamp_min(0.5), 0).numpy()
        source = nib.Nifti1Image(labels, prediction.affine.numpy())
        maps = {name: folder / "maps" / f"{number + 1:03d}_{name}.nii.gz" for name in ("labels", "uncertainty")}
        save_like(source, labels, maps["labels"], "dcl-monai labels")
        save_like(source, np.round(unsure, 2).astype(np.float32), maps["uncertainty"], "dcl-monai uncertainty")
        kind: Kind = "filled" if within else "prediction"
        layers = [Layer("drawn", "drawn")] if annotations_of(prediction.item) else []
        layers += [Layer(kind, kind, maps["labels"]), Layer("uncertainty", "uncertainty", maps["uncertainty"])]
        item = prediction.item
        cases.append(Case(case_name(item), Path(item["image"]), layers, note, marked, point, item))
    write_album(folder, title, datalist, cases)
