"""Draw docs/figures/idea.png: three hospitals, candidate sets, a compatible loss, one network.

python docs/figures/idea.py
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.patches import Circle, Ellipse, FancyArrowPatch, FancyBboxPatch

COLOURS = {"RV": "#e0703c", "MYO": "#3c8f5a", "LV": "#3f6fb5", "whole heart": "#8a64a8"}
UNDRAWN = "#d4d4d4"


def heart(axes, x, y, drawn, size=0.62):
    """A short-axis heart; structures that nobody drew are grey."""
    if drawn == ["whole heart"]:
        for patch in (Ellipse((x - 0.42 * size, y), 0.95 * size, 1.5 * size), Circle((x + 0.35 * size, y), 0.8 * size)):
            patch.set(facecolor=COLOURS["whole heart"], edgecolor="none")
            axes.add_patch(patch)
        return
    colour = {name: COLOURS[name] if name in drawn else UNDRAWN for name in ("RV", "MYO", "LV")}
    axes.add_patch(Ellipse((x - 0.42 * size, y), 0.95 * size, 1.5 * size, facecolor=colour["RV"], edgecolor="white"))
    axes.add_patch(Circle((x + 0.35 * size, y), 0.8 * size, facecolor=colour["MYO"], edgecolor="white"))
    axes.add_patch(Circle((x + 0.35 * size, y), 0.48 * size, facecolor=colour["LV"], edgecolor="white"))


def arrow(axes, start, end):
    axes.add_patch(FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=14, color="#555555", linewidth=1.4))


def box(axes, x, y, width, height, text):
    axes.add_patch(
        FancyBboxPatch((x, y), width, height, boxstyle="round,pad=0.05", facecolor="#f4f4f4", edgecolor="#555555")
    )
    axes.text(x + width / 2, y + height / 2, text, ha="center", va="center", fontsize=8.3)


def main():
    figure, axes = plt.subplots(figsize=(12, 4.9))
    axes.set(xlim=(0, 15.4), ylim=(0, 6.3), aspect="equal")
    axes.axis("off")
    rows = [
        (5.0, "north drew the RV", ["RV"], "inside: {RV}\noutside: {background, MYO, LV}"),
        (3.0, "south drew the MYO", ["MYO"], "inside: {MYO}\noutside: {background, RV, LV}"),
        (1.0, "east drew the whole heart", ["whole heart"], "inside: {RV, MYO, LV}\noutside: {background}"),
    ]
    for y, title, drawn, sets in rows:
        heart(axes, 1.4, y, drawn)
        axes.text(1.4, y - 0.88, title, ha="center", fontsize=9)
        arrow(axes, (2.5, y), (3.4, y))
        box(axes, 3.5, y - 0.45, 3.3, 0.9, sets)
        arrow(axes, (6.9, y), (7.9, 3.0 + 0.25 * (y - 3)))
    for x, title in ((1.4, "images"), (5.15, "candidate sets"), (9.1, "loss"), (11.5, "one network"), (14.1, "result")):
        axes.text(x, 6.0, title, ha="center", fontsize=11, weight="bold")
    box(axes, 8.0, 2.2, 2.2, 1.6, "compatible loss:\nevery voxel teaches\nonly what its set says")
    arrow(axes, (10.3, 3.0), (10.8, 3.0))
    box(axes, 10.9, 2.4, 1.4, 1.2, "network")
    arrow(axes, (12.4, 3.0), (13.2, 3.0))
    heart(axes, 14.1, 3.0, ["RV", "MYO", "LV"], size=0.75)
    axes.text(14.1, 1.95, "RV, MYO and LV,\nwhich nobody drew", ha="center", va="top", fontsize=9)
    for k, (name, colour) in enumerate(COLOURS.items()):
        axes.add_patch(Circle((8.2 + 1.25 * k, 0.35), 0.13, facecolor=colour))
        axes.text(8.4 + 1.25 * k, 0.35, name, va="center", fontsize=9)
    axes.add_patch(Circle((14.05, 0.35), 0.13, facecolor=UNDRAWN))
    axes.text(14.25, 0.35, "not drawn", va="center", fontsize=9)
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=110, bbox_inches="tight")


if __name__ == "__main__":
    main()
