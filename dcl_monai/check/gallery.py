"""Example slices, on which one sees at once whether label values are mapped right."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import nibabel as nib
import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from monai.data.utils import affine_to_spacing
from monai.transforms import Orientationd

from dcl_monai.candidates import candidate_sets, from_bits
from dcl_monai.datalist.items import Item
from dcl_monai.datalist.splits import SPLITS
from dcl_monai.transforms import LoadCandidatesd, LoadImagesd
from dcl_monai.transforms.drawings import slice_axis
from dcl_monai.visualize.overlays import class_colour
from dcl_monai.visualize.png import as_png

from .records import SEEN, CaseRecord, State
from .summary import Summary

UNION_COLOUR, UNKNOWN_COLOUR = "#c77cff", "#bdbdbd"
EXAMPLES = 4
"""Examples per data set."""


@dataclass
class Example:
    """A slice with its partial label drawn over it."""

    title: str  # where it is from
    picture: str  # image, and image with label, as PNG in base64
    legend: list[tuple[str, str, str]]  # colour, pattern ("plain" or "hatched") and meaning of everything that is drawn


def draw_examples(summary: Summary) -> dict[str, list[Example]]:
    """Draw some examples of every data set, each the slice that shows most; their files are read again."""
    listed = (item.copy() for split in SPLITS for item in summary.datalist[split])
    items = {id(record): item for record, item in zip(summary.records, listed, strict=True)}
    return {
        dataset: [draw_example(summary, record, items[id(record)]) for record in choose(records)]
        for dataset, records in summary.datasets.items()
    }


def choose(records: Iterable[CaseRecord]) -> list[CaseRecord]:
    """Choose readable records that show much, of different subjects and, if possible, with different annotations."""

    def shows(record: CaseRecord) -> int:
        return sum(state in (*SEEN, State.UNION) for state in record.states[1:])

    # sorting keeps the order of the datalist, training first
    left = sorted((r for r in records if State.UNREAD not in r.states), key=shows, reverse=True)
    chosen: list[CaseRecord] = []
    while left and len(chosen) < EXAMPLES:
        chosen.append(next((r for r in left if r.states not in [c.states for c in chosen] and shows(r)), left[0]))
        left = [record for record in left if record.subject not in [c.subject for c in chosen]]
    return chosen


def draw_example(summary: Summary, record: CaseRecord, item: Item) -> Example:
    """Draw an item without label and with it, side by side."""
    chosen = take_slice(item, len(summary.classes))
    height, width = chosen.image.shape
    shape = min(1.6, max(0.4, chosen.aspect * height / width))
    figure = Figure(figsize=(6.2, 3.1 * shape))
    panels = figure.subplots(1, 2, gridspec_kw={"wspace": 0.02, "left": 0, "right": 1, "bottom": 0, "top": 1})
    low, high = np.percentile(chosen.image, (1, 99))
    for axes in panels:
        axes.imshow(chosen.image, cmap="gray", vmin=low, vmax=max(high, low + 1e-6), aspect=chosen.aspect)
        axes.set_axis_off()
    legend = []
    for code in np.unique(chosen.codes):
        legend.append(paint(chosen.sets[code], summary))
        colour, pattern, _ = legend[-1]
        mask = np.ma.masked_equal(chosen.codes == code, False)
        if pattern == "hatched":
            # a rim around, so that outlines close at the border
            padded, extent = np.pad(mask.data, 1), (-1, width, -1, height)
            hatched = axes.contourf(padded, [0.5, 1.5], colors="none", hatches=["///"], extent=extent)
            hatched.set_edgecolor(colour)
            hatched.set_linewidth(0)
            hatched.set_hatch_linewidth(1.0)
            axes.imshow(mask, cmap=ListedColormap([colour]), alpha=0.25, aspect=chosen.aspect, interpolation="nearest")
        elif colour:
            palette = ListedColormap([colour])
            axes.imshow(mask, cmap=palette, alpha=0.55, aspect=chosen.aspect, interpolation="nearest")
    axes.set(xlim=(-0.5, width - 0.5), ylim=(height - 0.5, -0.5))
    return Example(f"{record.case}, {record.split}{chosen.place}", as_png(figure), legend)


@dataclass
class Slice:
    """A slice of a volume, as radiologists look at it."""

    image: np.ndarray  # rows and columns of the picture
    codes: np.ndarray  # codes of candidate sets
    sets: tuple[int, ...]  # the set of every code
    aspect: float  # height of a pixel relative to its width
    place: str  # which slice it is, in words


def take_slice(item: Item, num_classes: int) -> Slice:
    """Load an item and take the slice with the most known foreground."""
    entries: Any = item
    loaded: Any = LoadCandidatesd("label", num_classes)(LoadImagesd("image")(entries))
    spatial = loaded["image"].ndim - 1
    affine, stored = np.asarray(loaded["image"].affine), loaded["image"].shape[1:]
    loaded = Orientationd(["image", "label"], axcodes="LPS"[:spatial], labels=None)(loaded)
    spacing: Any = affine_to_spacing(np.asarray(loaded["image"].affine), spatial, float)
    image, codes = loaded["image"].numpy()[0], loaded["label"].numpy()[0].astype(int)
    sets = candidate_sets(loaded["label"])
    if spatial == 2:
        return Slice(image.T, codes.T, sets, spacing[1] / spacing[0], "")
    # slices are numbered as in the file, along its own axis
    sizes: Any = affine_to_spacing(affine, 3, float)
    axis, direction = (int(number) for number in nib.io_orientation(affine)[slice_axis(stored, sizes)])
    shown = np.array([not bits & 1 for bits in sets])[codes].sum(tuple({0, 1, 2} - {axis}))
    k = int(shown.argmax()) if shown.any() else len(shown) // 2
    image, codes, spacing = image.take(k, axis).T, codes.take(k, axis).T, np.delete(spacing, axis)
    if axis != 2:  # the rows go from the feet to the head
        image, codes = image[::-1], codes[::-1]
    number = k + 1 if direction == (1 if axis == 2 else -1) else len(shown) - k
    return Slice(image, codes, sets, spacing[1] / spacing[0], f", slice {number} of {len(shown)}")


def paint(bits: int, summary: Summary) -> tuple[str, str, str]:
    """Colour, pattern and meaning of a candidate set."""
    members = from_bits(bits)
    names = [summary.classes[j] for j in members]
    if bits == 1:
        return "", "plain", f"{names[0]} (not coloured)"
    if len(members) == 1:
        return class_colour(members[0], len(summary.classes)), "plain", names[0]
    if len(members) == len(summary.classes):
        return UNKNOWN_COLOUR, "hatched", "not annotated: nothing is known"
    if bits & 1:
        return UNKNOWN_COLOUR, "hatched", f"not annotated: {' or '.join(names)}"
    unions = {tuple(indices): name for name, indices in summary.datalist.get("unions", {}).items()}
    named = f"{unions[members]}: " if members in unions else ""
    return UNION_COLOUR, "hatched", f"{named}{' or '.join(names)}, not distinguished"
