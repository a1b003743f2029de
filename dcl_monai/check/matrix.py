"""The picture of which class is annotated in which image."""

from __future__ import annotations

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from dcl_monai.datalist.splits import SPLITS
from dcl_monai.visualize.png import as_png

from .records import State
from .summary import Summary

STATE_COLOURS = {
    State.PRESENT: "#1b5e92",
    State.ABSENT: "#9ecae9",
    State.STROKES: "#f28e2b",
    State.UNION: "#b07cc6",
    State.UNKNOWN: "#e6e6e6",
    State.UNREAD: "#d62728",
}
NAMED_CASES = 24
"""Up to so many columns side by side get the names of their cases."""
NARROWEST = 0.17
"""Width of the narrowest panel, as a part of all columns, so that its title fits."""


def draw_states(summary: Summary) -> str:
    """
    Draw what is known of every class (rows) in every image (columns), a panel per data set and split.

    Columns that say the same stand side by side, so that a thousand of them are still readable.
    """
    classes = summary.classes
    splits = [split for split in SPLITS if any(record.split == split for record in summary.records)]
    rows = list(summary.datasets.items())
    panels = {(d, s): [r for r in records if r.split == s] for d, records in rows for s in splits}
    widest = {split: max(len(panels[name, split]) for name, _ in rows) for split in splits}
    total = sum(widest.values())
    named = total <= NAMED_CASES
    figure = Figure(figsize=(12, 0.5 + len(rows) * (0.62 + 0.2 * len(classes) + 0.55 * named)), layout="constrained")
    grid = figure.subplots(
        len(rows), len(splits), squeeze=False, width_ratios=[max(widest[split], NARROWEST * total) for split in splits]
    )
    order = list(State)
    palette = ListedColormap([STATE_COLOURS[state] for state in order])
    for (name, _), line in zip(rows, grid, strict=True):
        for split, axes in zip(splits, line, strict=True):
            records = sorted(panels[name, split], key=lambda r: ([order.index(s) for s in r.states], r.case))
            axes.tick_params(length=0, labelsize=8)
            axes.set_yticks(range(len(classes)), [_plain(c) for c in classes] if axes is line[0] else [])
            axes.set_xticks([])
            axes.spines[:].set_visible(False)  # they would hide the outermost of many columns
            number = f"{len(records)} image{'s' * (len(records) != 1)}" if records else "none"
            title = f"{_plain(name)}   {split}: {number}" if axes is line[0] else f"{split}: {number}"
            axes.set_title(title, loc="left", fontsize=9)
            if not records:
                axes.set(ylim=(len(classes) - 0.5, -0.5))
                continue
            codes = np.array([[order.index(state) for state in record.states] for record in records]).T
            axes.imshow(codes, cmap=palette, vmin=0, vmax=len(order) - 1, aspect="auto", interpolation="nearest")
            axes.hlines(np.arange(len(classes) - 1) + 0.5, -0.5, len(records) - 0.5, color="white", lw=1)
            if named:
                axes.vlines(np.arange(len(records) - 1) + 0.5, -0.5, len(classes) - 0.5, color="white", lw=1)
                names = [_plain(_short(record.case)) for record in records]
                axes.set_xticks(range(len(records)), names, rotation=35, ha="right", fontsize=7)
    handles = [Patch(color=STATE_COLOURS[state], label=state.value) for state in summary.used]
    figure.legend(handles=handles, loc="outside upper left", ncols=len(handles), fontsize=9, frameon=False)
    return as_png(figure)


def _short(name: str) -> str:
    """The end of a long name, in which cases differ."""
    return name if len(name) <= 22 else "..." + name[-20:]


def _plain(text: str) -> str:
    """Text that matplotlib does not take for a formula."""
    return text.replace("$", r"\$")
