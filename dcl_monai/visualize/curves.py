"""The training curves of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from dcl_monai.utils.files import replace_atomic

from .overlays import COLOURS


def plot_curves(rows: Sequence[Mapping[str, float]], terms: Sequence[str], path: str | Path) -> None:
    """
    Draw loss terms, validation Dice by structure, and the diagnostics over the epochs.

    Args:
        rows: one per epoch, as :class:`dcl_monai.handlers.History` collects them.
        terms: names of the loss terms among their entries, the loss itself first.
        path: the PNG file.
    """
    figure = Figure(figsize=(13, 4.4), layout="constrained")
    losses, dice, signs = figure.subplots(1, 3)
    columns = list(dict.fromkeys(name for row in rows for name in row))

    def line(axes: Axes, name: str, label: str, **style: object) -> None:
        points = [(row["epoch"], row[name]) for row in rows if name in row]
        if axes is losses:  # on a logarithmic axis; a term is zero while no conditions are shown
            points = [point for point in points if point[1] > 0]
        if points:
            axes.plot(*zip(*points, strict=True), label=label, marker=".", **style)  # type: ignore[arg-type]

    for name in terms:
        if name in columns:
            line(losses, name, name, lw=2.2 if name == "loss" else 1.2, color="black" if name == "loss" else None)
    losses.set_yscale("log")
    losses.set_title("training loss", pad=14)
    structures = [name for name in columns if name.startswith("val_dice_")]
    for name in columns:
        if name.startswith("val_dice"):
            mean = name == "val_dice"
            label = "mean" if mean else name.removeprefix("val_dice_")
            colour = "black" if mean else COLOURS[structures.index(name) % len(COLOURS)]
            line(dice, name, label, lw=2.2 if mean else 1.2, color=colour)
    dice.set_ylim(0, 1)
    dice.set_title("validation Dice", pad=14)
    if "shuffled_dice" in columns:
        line(signs, "val_dice", "Dice", color="black", lw=2.2)
        line(signs, "shuffled_dice", "Dice, shuffled conditions", color="tab:red")
    signs.set_ylim(0, 1)
    signs.set_title("diagnostics", pad=14)
    if "gradient_ratio" in columns:
        ratio = signs.twinx()
        line(ratio, "gradient_ratio", "dual / primal gradient (right)", ls=":", color="tab:blue")
        ratio.set_ylim(bottom=0)
        ratio.tick_params(axis="y", colors="tab:blue")
        signs.plot([], [], ".:", color="tab:blue", label="dual / primal gradient (right)")
    starts = {
        "conditions": next((row["epoch"] for row in rows if row.get("prior", 0) > 0 and row["epoch"] > 1), None),
        "stage 2": next((row["epoch"] for row in rows if row.get("stage") == 2), None),
    }
    marks = {epoch: ", ".join(n for n, e in starts.items() if e == epoch) for epoch in starts.values() if epoch}
    for axes in (losses, dice, signs):
        for epoch, name in marks.items():
            axes.axvline(epoch - 0.5, color="0.7", ls="--", lw=1)
            axes.text(
                epoch - 0.5, 1.0, name, fontsize=7, color="0.4", transform=axes.get_xaxis_transform(), va="bottom"
            )
        axes.set_xlabel("epoch")
        axes.set_xlim(0.5, len(rows) + 0.5)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        axes.grid(alpha=0.3)
        if axes.get_legend_handles_labels()[0]:
            # below, where it hides no curve
            axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=4, frameon=False)
        else:
            axes.text(0.5, 0.5, "no conditions in this run", ha="center", color="0.5", transform=axes.transAxes)
    replace_atomic(path, lambda temporary: figure.savefig(temporary, dpi=110, format="png"))
