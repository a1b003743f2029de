"""Contact sheets: every segmentation at a glance."""

from __future__ import annotations

import hashlib
import json
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from PIL import Image

from dcl_monai.transforms.images import open_source
from dcl_monai.utils.files import replace_atomic
from dcl_monai.visualize.overlays import COLOURS

ROWS, COLUMNS = 8, 4
MARKED = "tab:red"
CONTENT = "dcl-monai content"
"""Name of a note in the file of a page."""


class Case(NamedTuple):
    """A row of a contact sheet."""

    name: str
    image: Path
    label: Path  # its segmentation
    unusual: Sequence[str] = ()  # what is unusual of it; the row is then marked in red
    note: str = ""  # a line below the row


def draw_contact_sheets(cases: Sequence[Case], classes: Sequence[str], output_dir: Path) -> list[Path]:
    """
    Draw slices of every image, of a cine the first frame, with the outlines of its segmentation, eight to a page.

    The pages, which are returned, are ``contact_sheet_01.png`` and so on. Those of an earlier run are replaced, but for
    pages that would come out as they are.
    """
    pages = []
    for start in range(0, len(cases), ROWS):
        path = output_dir / f"contact_sheet_{start // ROWS + 1:02d}.png"
        page = cases[start : start + ROWS]
        content = page_content(page, classes)
        if drawn_content(path) != content:
            _draw_page(page, classes, path, content)
        pages.append(path)
    for old in set(output_dir.glob("contact_sheet_*.png")) - set(pages):
        old.unlink()
    return pages


def page_content(cases: Sequence[Case], classes: Sequence[str]) -> str:
    """All that a page shows, as a hash that is kept in its file."""
    files = [
        (case.name, list(case.unusual), case.note, case.image.stat().st_mtime_ns, case.label.stat().st_mtime_ns)
        for case in cases
    ]
    return hashlib.sha256(json.dumps([files, list(classes)]).encode()).hexdigest()


def drawn_content(path: Path) -> str | None:
    """What a page was drawn from; ``None`` if there is none."""
    try:
        with Image.open(path) as picture:
            return picture.info.get(CONTENT)
    except OSError:
        return None


def _draw_page(cases: Sequence[Case], classes: Sequence[str], path: Path, content: str) -> None:
    figure = Figure(figsize=(2.1 * COLUMNS, 2.1 * len(cases) + 0.5), layout="constrained")
    colours = [COLOURS[index % len(COLOURS)] for index in range(len(classes) - 1)]
    for row, case in zip(figure.subplots(len(cases), COLUMNS, squeeze=False), cases, strict=True):
        (image, spacing), (label, _) = first_frame(case.image), first_frame(case.label, label=True)
        low, high = np.percentile(image, (1, 99))
        slices = spread_slices(label)
        for axes, k in zip(row, slices, strict=False):
            axes.imshow(image[:, :, k].T, cmap="gray", vmin=low, vmax=high, aspect=spacing[1] / spacing[0])
            for j, colour in enumerate(colours, start=1):
                if min(label.shape[:2]) > 1 and (label[:, :, k] == j).any():
                    axes.contour((label[:, :, k] == j).T, levels=[0.5], colors=[colour], linewidths=0.9)
            axes.set_title(f"slice {k + 1}", fontsize=6, pad=2)
        for axes in row:
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set_visible(False)
        name = case.name if len(case.name) < 36 else "..." + case.name[-33:]
        row[0].set_ylabel(name, fontsize=6, color=MARKED if case.unusual else "black")
        if case.unusual:
            words = "; ".join(case.unusual)
            words = textwrap.fill(words if len(words) < 130 else words[:127] + "...", 60)  # not wider than a slice
            row[0].annotate(words, (0, -0.02), xycoords="axes fraction", va="top", fontsize=5, color=MARKED)
        if case.note:
            below = (0, -0.02 - 0.05 * (len(words.splitlines()) + 1 if case.unusual else 0))
            row[0].annotate(case.note, below, xycoords="axes fraction", va="top", fontsize=5, annotation_clip=False)
    handles = [Line2D([], [], color=colour, label=name) for colour, name in zip(colours, classes[1:], strict=True)]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize=8)
    replace_atomic(
        path, lambda temporary: figure.savefig(temporary, dpi=100, format="png", metadata={CONTENT: content})
    )


def first_frame(path: Path, label: bool = False) -> tuple[np.ndarray, Sequence[float]]:
    """The first volume (H, W, D) of a file, and its voxel size."""
    image: Any = open_source(path, label=label)
    volume = np.asarray(image.dataobj[..., 0] if image.ndim > 3 else image.dataobj)
    return volume, image.header.get_zooms()


def spread_slices(label: np.ndarray) -> list[int]:
    """Slices to look at: spread evenly over those in which something is drawn, or over all."""
    drawn = np.flatnonzero((label > 0).any((0, 1)))
    candidates = drawn if len(drawn) else np.arange(label.shape[2])
    places = (np.arange(COLUMNS) + 0.5) / COLUMNS * len(candidates)
    return sorted({int(candidates[int(place)]) for place in places})
