"""The training curves of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from dcl_monai.utils.files import replace_atomic

__all__ = ["plot_curves"]


def plot_curves(rows: Sequence[Mapping[str, float]], path: str | Path) -> None:
    """
    Draw loss terms, validation Dice by structure, and the vital signs over the epochs.

    Args:
        rows: one per epoch, as :class:`dcl_monai.handlers.History` collects them.
        path: the PNG file.
    """
    figure = Figure(figsize=(13, 3.8), layout="constrained")
    losses, dice, signs = figure.subplots(1, 3)
    columns = list(dict.fromkeys(name for row in rows for name in row))

    def line(axes: Axes, name: str, label: str, **style: object) -> None:
        points = [(row["epoch"], row[name]) for row in rows if name in row]
        if axes is losses:  # on a logarithmic axis; a term is zero while no conditions are shown
            points = [point for point in points if point[1] > 0]
        if points:
            axes.plot(*zip(*points, strict=True), label=label, **style)  # type: ignore[arg-type]

    for name in ("loss", "supervised", "positive", "negative", "prior", "dual"):
        if name in columns:
            line(losses, name, name, lw=2.2 if name == "loss" else 1.2, color="black" if name == "loss" else None)
    losses.set(title="training loss", yscale="log")
    for name in columns:
        if name.startswith("val_dice"):
            mean = name == "val_dice"
            label = "mean" if mean else name.removeprefix("val_dice_")
            line(dice, name, label, marker=".", lw=2.2 if mean else 1.2, color="black" if mean else None)
    dice.set(title="validation Dice", ylim=(0, 1))
    if "shuffled_dice" in columns:
        line(signs, "val_dice", "Dice", marker=".", color="black", lw=2.2)
        line(signs, "shuffled_dice", "Dice, shuffled conditions", marker=".", color="tab:red")
    signs.set(title="vital signs", ylim=(0, 1))
    if "gradient_ratio" in columns:
        ratio = signs.twinx()
        line(ratio, "gradient_ratio", "dual / primal gradient (right)", marker="x", ls=":", color="tab:blue")
        ratio.set_ylim(bottom=0)
        ratio.tick_params(axis="y", colors="tab:blue")
        signs.plot([], [], "x:", color="tab:blue", label="dual / primal gradient (right)")
    second = [row["epoch"] for row in rows if row.get("stage") == 2]
    for axes in (losses, dice, signs):
        if second:
            axes.axvline(second[0] - 0.5, color="0.7", ls="--", lw=1)
            axes.annotate(
                "stage 2",
                (second[0] - 0.5, 1),
                (3, -10),
                xycoords=("data", "axes fraction"),
                textcoords="offset points",
                fontsize=8,
                color="0.4",
            )
        axes.set_xlabel("epoch")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(alpha=0.3)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize=8)
        else:
            axes.text(0.5, 0.5, "no conditions in this run", ha="center", color="0.5", transform=axes.transAxes)
    replace_atomic(path, lambda temporary: figure.savefig(temporary, dpi=110, format="png"))
