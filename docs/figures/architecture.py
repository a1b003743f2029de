"""Draw docs/figures/architecture.png: the rooms of the package, and the way of a batch through them.

python docs/figures/architecture.py
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

# as in [tool.importlinter] of pyproject.toml, from top to bottom
ROOMS = [
    {"cli": "commands"},
    {"annotate": "complete labels", "studies": "comparisons"},
    {"bundle": "template, new, verify, verbs"},
    {"planning": "network from data"},
    {"inferers": "segment a folder", "handlers": "stages, checkpoints"},
    {"engines": "the trainer", "check": "read all data once"},
    {
        "data": "torch data sets",
        "metrics": "Dice, distances",
        "synthetic": "hearts, scribbles",
        "visualize": "pictures",
    },
    {"losses": "compatible losses", "networks": "CompNet, model file", "transforms": "candidate sets"},
    {"conditions": "the bank", "datalist": "what a user says"},
    {"candidates": "what is known of a voxel", "samples": "what a batch holds"},
    {"utils": "errors, files, ranks"},
]
WAY = [
    ("hearts.yaml", "which images, which labels", None),
    ("items", "image, annotations, meaning of values", "datalist"),
    ("checked items", "every file was read once", "check"),
    ("volumes", "image and candidate sets on one grid", "transforms"),
    ("batch", "slices or patches, with conditions", "data, conditions"),
    ("logits", "PrimNet, in stage 2 also DualNet", "networks, engines"),
    ("loss", "every voxel teaches what its set says", "losses"),
    ("model.pt", "best weights, bank and settings", "handlers, networks"),
    ("label maps", "with a report", "inferers"),
]
FILL, EDGE, ON_THE_WAY = "#f4f4f4", "#777777", "#d9ece7"


def box(axes, x, y, width, height, title, text, colour=FILL):
    style = "round,pad=0.02,rounding_size=0.08"
    axes.add_patch(FancyBboxPatch((x, y), width, height, boxstyle=style, facecolor=colour, edgecolor=EDGE))
    axes.text(x + width / 2, y + 0.64 * height, title, ha="center", va="center", fontsize=10, weight="bold")
    axes.text(x + width / 2, y + 0.27 * height, text, ha="center", va="center", fontsize=8, color="#333333")


def arrow(axes, start, end):
    look = {"arrowstyle": "-|>", "mutation_scale": 13, "color": "#2a7a6a", "linewidth": 1.4}
    axes.add_patch(FancyArrowPatch(start, end, shrinkA=1, shrinkB=1, **look))


def main():
    figure, axes = plt.subplots(figsize=(12.4, 7.2))
    axes.set(xlim=(0, 15.4), ylim=(-0.6, 9.9))
    axes.axis("off")
    axes.text(4.3, 9.6, "The rooms: imports go down only", ha="center", fontsize=12, weight="bold")
    axes.text(12.2, 9.6, "The way of a batch", ha="center", fontsize=12, weight="bold")
    used = {name for _, _, rooms in WAY if rooms for name in rooms.split(", ")}
    pitch = 1.04 * (len(WAY) - 1) / (len(ROOMS) - 1)  # both columns end at the same height
    for k, row in enumerate(ROOMS):
        width = (8.0 - 0.2 * (len(row) - 1)) / len(row)
        for j, (name, text) in enumerate(row.items()):
            colour = ON_THE_WAY if name in used else FILL
            box(axes, 0.3 + j * (width + 0.2), 8.35 - k * pitch, width, 0.85 * pitch, name, text, colour)
    for k, (title, text, rooms) in enumerate(WAY):
        y = 8.35 - k * 1.04
        box(axes, 10.4, y, 3.6, 0.74, title, text, ON_THE_WAY)
        if k:
            arrow(axes, (12.2, y + 1.04), (12.2, y + 0.76))
            axes.text(10.2, y + 0.37, rooms.replace(", ", ",\n"), ha="right", va="center", fontsize=9, color="#2a7a6a")
    axes.text(4.3, -0.4, "green: rooms that a batch passes", ha="center", fontsize=9, color="#2a7a6a")
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=110, bbox_inches="tight")


if __name__ == "__main__":
    main()
