"""Overlay pictures: image, annotation, truth, prediction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from matplotlib import colormaps
from matplotlib.colors import ListedColormap, to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from torch import nn

from dcl_monai.candidates import candidate_sets, expand, known_positive
from dcl_monai.datalist.items import Datalist, Item, annotations_of, unhidden
from dcl_monai.samples import Volume
from dcl_monai.utils.distributed import on_first_rank
from dcl_monai.utils.files import replace_atomic

COLOURS = ("tab:blue", "gold", "tab:red", "tab:green", "tab:purple", "tab:cyan", "tab:orange", "tab:pink")
BACKGROUND_COLOUR = "0.55"
UNION_COLOUR = "orchid"
MAX_ANNOTATIONS, TEST_CASES = 8, 2


@dataclass
class Example:
    """One row of the picture."""

    title: str  # text of the row
    image: np.ndarray  # (H, W)
    # class index where the network was told it, the number of classes within a union of structures, -1 elsewhere (H,
    # W); ``None`` where it was told nothing
    told: np.ndarray | None
    # the same as far as the files show it, (H, W); ``None`` where they show no more than the network was told
    truth: np.ndarray | None
    prediction: np.ndarray  # class index (H, W)


def plot_overlays(examples: Sequence[Example], classes: Sequence[str], path: str | Path) -> None:
    """
    Draw one row per example: image, partial label, truth, prediction.

    Args:
        examples: the rows.
        classes: class names, background first.
        path: the PNG file.
    """
    colours = [BACKGROUND_COLOUR, *(COLOURS[index % len(COLOURS)] for index in range(len(classes) - 1)), UNION_COLOUR]
    palette = ListedColormap(colours)
    figure = Figure(figsize=(9, 2.3 * len(examples) + 0.5), layout="constrained")
    grid = figure.subplots(len(examples), 4, squeeze=False)
    for column, title in enumerate(("image", "partial label", "truth", "prediction")):
        grid[0][column].set_title(title)
    for row, example in zip(grid, examples, strict=True):
        low, high = np.percentile(example.image, (1, 99))
        for axes, overlay in zip(row, (None, example.told, example.truth, example.prediction), strict=True):
            axes.set(xticks=[], yticks=[])
            if axes is not row[0] and overlay is None:
                axes.set_aspect("equal")
                text = "not used\nin training" if axes is row[1] else "not known"
                axes.text(0.5, 0.5, text, ha="center", va="center", transform=axes.transAxes)
                continue
            axes.imshow(example.image.T, cmap="gray", vmin=low, vmax=high)
            if overlay is not None:
                # background is drawn only where it is what the network was told
                shown = overlay >= 0 if overlay is example.told else overlay > 0
                masked = np.ma.masked_where(~shown, overlay)
                axes.imshow(masked.T, cmap=palette, vmin=0, vmax=len(classes), alpha=0.5, interpolation="nearest")
        row[0].set_ylabel(example.title, fontsize=8)
    names = [*classes, "one of several"] if any(np.any(e.told == len(classes)) for e in examples) else classes
    handles = [Patch(color=colour, label=name) for colour, name in zip(colours, names, strict=False)]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(names), fontsize=8)
    replace_atomic(path, lambda temporary: figure.savefig(temporary, dpi=110, format="png"))


@on_first_rank
def draw_examples(
    network: nn.Module,
    inferer: Callable[[torch.Tensor, nn.Module], torch.Tensor],
    datalist: Datalist,
    preprocessing: Callable[[Item], Volume],
    device: torch.device,
    path: str | Path,
) -> None:
    """
    Draw a training image of every annotation that occurs, and test images, with what the network makes of them.

    Args:
        network: the served network: one image in, class probabilities out.
        inferer: applies it to a volume, (1, C, H, W, D).
        datalist: the datalist.
        preprocessing: turns an item into a volume.
        device: device of the network.
        path: the PNG file.
    """
    classes = datalist["classes"]
    chosen = {annotation_title(item, classes): item for item in reversed(datalist["training"])}
    subjects = {item["subject"]: item for item in reversed(datalist["test"])}
    rows = [(f"training: {title}", item) for title, item in sorted(chosen.items())[:MAX_ANNOTATIONS]]
    rows += [("test", item) for _, item in sorted(subjects.items())[:TEST_CASES]]
    examples = []
    network.eval()
    for title, item in rows:
        loaded = preprocessing(item.copy())
        full = preprocessing(unhidden(item))
        truth = class_map(full["label"], len(classes))
        told = class_map(loaded["label"], len(classes))
        k = telling_slice(truth if title == "test" else told, truth)
        partial = title != "test" and np.array_equal(told, truth) and (truth < 0).any()
        image = torch.as_tensor(loaded["image"]).to(device)
        with torch.no_grad():
            prediction = inferer(image.unsqueeze(0), network)[0].argmax(0)[..., k].cpu().numpy()
        examples.append(
            Example(
                title=f"{item['subject']} {item.get('phase', '')}\n{title}",
                image=image[0, ..., k].cpu().numpy(),
                told=None if title == "test" else told[..., k],
                truth=None if partial else truth[..., k],
                prediction=prediction,
            )
        )
    plot_overlays(examples, classes, path)


def telling_slice(*maps: np.ndarray) -> int:
    """
    The slice that shows most of the structures that are drawn, each relative to where it is largest.

    Args:
        *maps: class maps (H, W, D). The first decides which slices show enough, at least half as much as the best; of
            these the next one decides, and so on. One that shows nothing but background is passed over; if all do, the
            middle is taken.
    """
    best, slices = maps[0].shape[-1] // 2, np.arange(maps[0].shape[-1])
    for classes in maps:
        areas = [(classes == value).sum((0, 1)) for value in np.unique(classes[classes > 0])]
        shown = np.sum([area / area.max() for area in areas], axis=0)[slices] if areas else np.zeros(len(slices))
        if shown.any():
            best, slices = int(slices[shown.argmax()]), slices[shown >= shown.max() / 2]
    return best


def annotation_title(item: Item, classes: Sequence[str]) -> str:
    """What is annotated in an item, in words."""
    annotated = [
        entry for annotation in annotations_of(item) for entry in annotation.get("annotated", range(len(classes)))
    ]
    if not annotated:
        return "nothing"
    return ", ".join(classes[e] if isinstance(e, int) else "+".join(classes[j] for j in e) for e in annotated)


def class_map(label: torch.Tensor, num_classes: int) -> np.ndarray:
    """Class index of every voxel whose class is known, the number of classes within unions of structures, else -1."""
    members = expand(torch.as_tensor(label)[0], candidate_sets(label), num_classes)
    sole = known_positive(members, dim=0)
    known = torch.where(sole.any(0), sole.int().argmax(0), -1)
    return torch.where(~members[0] & ~sole.any(0), num_classes, known).numpy()


def class_colour(index: int, num_classes: int) -> str:
    """Colour of a structure."""
    if num_classes <= len(COLOURS) + 1:
        return to_hex(COLOURS[index - 1])
    return to_hex(colormaps["gist_rainbow"]((index - 1) / (num_classes - 1)))
