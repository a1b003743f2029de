"""The pictures of a report."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from monai.transforms import Compose, LoadImaged

from dcl_monai.datalist import Item, prediction_name
from dcl_monai.transforms import LoadCandidatesd, LoadImagesd
from dcl_monai.utils import DataError
from dcl_monai.visualize.overlays import COLOURS, class_map
from dcl_monai.visualize.png import as_png

from ..results import Case, RunResults, StudyResults
from .tables import AVERAGE, ReportTable

logger = logging.getLogger(__name__)

MARGIN = 12
"""Voxels around the structures that are shown."""
MAX_SHOWN = 6
"""Predictions beside each other."""


def draw_cases(table: ReportTable, results: StudyResults) -> str:
    """Average Dice of every test patient by row, with mean and interval, as PNG in base64."""
    figure = Figure(figsize=(9, 0.9 + 0.42 * len(table.rows)), layout="constrained")
    axes = figure.subplots()
    rng = np.random.default_rng(0)
    for place, row in enumerate(table.rows):
        values = list(results.recipes[row.row.recipe].by_patient(results.structures).values())
        spread = rng.uniform(-0.18, 0.18, len(values))
        axes.scatter(values, place + spread, s=14, alpha=0.55, color="tab:blue", linewidths=0)
        cell = row.cells[AVERAGE]
        axes.plot([cell.mean] * 2, [place - 0.3, place + 0.3], color="black")
        if not np.isnan(cell.low):
            axes.plot([cell.low, cell.high], [place] * 2, color="black", linewidth=2)
    axes.set(yticks=range(len(table.rows)), yticklabels=[row.label for row in table.rows])
    axes.set_xlabel("Dice of each test patient, average of structures, phases and seeds; mean and 95% interval")
    axes.invert_yaxis()
    axes.grid(axis="x", alpha=0.3)
    return as_png(figure)


def draw_labels(tables: Sequence[ReportTable]) -> str:
    """Average Dice against the labels that annotators drew, as PNG in base64."""
    figure = Figure(figsize=(9, 5), layout="constrained")
    axes = figure.subplots()
    rows = {row.row.recipe: row for table in tables for row in table.rows}
    for row in rows.values():
        cell = row.cells[AVERAGE]
        # by rounding, an end of the interval may come to lie on the wrong side of the mean
        error = np.clip([[cell.mean - cell.low], [cell.high - cell.mean]], 0.0, None)
        axes.errorbar(row.labels, cell.mean, None if np.isnan(error).any() else error, fmt="o", capsize=2, alpha=0.8)
    low, high = axes.get_ylim()
    amounts = {row.labels for row in rows.values()}
    for amount in amounts:
        # names stand to the right, but for the fewest labels, where those of the next amount may begin
        left = amount == min(amounts) and len(amounts) > 1
        group = sorted((row.cells[AVERAGE].mean, name) for name, row in rows.items() if row.labels == amount)
        places = spread([mean for mean, _ in group], 0.045 * (high - low))
        for (mean, name), place in zip(group, places, strict=True):
            axes.annotate(
                name,
                (amount, mean),
                xytext=(-12 if left else 12, (place - mean) / (high - low) * 300),
                textcoords="offset points",
                fontsize=8,
                ha="right" if left else "left",
                va="center",
                arrowprops={"arrowstyle": "-", "color": "0.7", "shrinkA": 0},
            )
    axes.set(xlabel="labels drawn (classes of every training subject)", ylabel="Dice, average; 95% interval")
    axes.margins(x=0.18)
    axes.grid(alpha=0.3)
    return as_png(figure)


def spread(values: Sequence[float], gap: float) -> list[float]:
    """Move sorted values apart, so that neighbours are at least ``gap`` apart, about their common centre."""
    places: list[float] = []
    for value in values:
        places.append(max(value, places[-1] + gap) if places else value)
    shift = float(np.mean(places) - np.mean(values))
    return [place - shift for place in places]


def draw_overlays(results: StudyResults, recipes: Sequence[str], reference: str) -> list[tuple[str, str]]:
    """
    Draw the cases at the best 5%, the median and the worst 5% of the reference (the paper's Fig. 7-9), as each recipe
    segments them. They are ordered by average Dice over structures and seeds.

    Returns:
        title and PNG in base64 of every picture; none where images or predictions are not on this machine.
    """
    scores = case_scores(results, reference)
    order = sorted(scores, key=lambda case: scores[case])
    places = [("best 5%", 0.95), ("median", 0.5), ("worst 5%", 0.05)]
    shown = [(name, order[round(share * (len(order) - 1))]) for name, share in places]
    overlays = []
    for name, case in shown:
        try:
            picture = draw_case(results, recipes[:MAX_SHOWN], case)
        except (DataError, OSError, RuntimeError) as error:
            logger.warning(f"{' '.join(case)}: cannot be drawn ({' '.join(str(error).split())[:160]}).")
            continue
        about = " ".join(filter(None, (case[0], case[1], case[2])))
        overlays.append((f"{name} of {reference}: {about}, Dice {scores[case]:.3f}", picture))
    return overlays


def case_scores(results: StudyResults, recipe: str) -> dict[Case, float]:
    """Average Dice of every test volume over structures and seeds."""
    collected: dict[Case, list[float]] = {}
    for run in results.recipes[recipe].runs:
        for case, dice in run.dice.items():
            collected.setdefault(case, []).extend(dice[name] for name in results.structures if name in dice)
    return {case: float(np.mean(values)) for case, values in collected.items() if values}


def draw_case(results: StudyResults, recipes: Sequence[str], case: Case) -> str:
    """Image, truth and predictions of a case, in the slice with most of the structures."""
    item = item_of(tested_on(results, recipes[0], case), case)
    load = Compose([LoadImagesd("image"), LoadCandidatesd("label", num_classes=len(results.classes))])
    loaded = load(dict(item))
    truth = class_map(loaded["label"], len(results.classes))
    k = int((truth > 0).sum((0, 1)).argmax())
    window = heart_window(truth[..., k] > 0)
    image = np.asarray(loaded["image"])[0, ..., k][window]
    aspect = float(loaded["image"].pixdim[1] / loaded["image"].pixdim[0])
    panels: list[tuple[str, np.ndarray | None]] = [("image", None), ("truth", truth[..., k][window])]
    for recipe in recipes:
        run = tested_on(results, recipe, case)
        path = run.folder / "predictions" / prediction_name(item)
        prediction = np.asarray(LoadImaged("pred", ensure_channel_first=True)({"pred": str(path)})["pred"])[0]
        dice = run.dice[case]
        mean = np.mean([dice[name] for name in results.structures if name in dice])
        panels.append((f"{recipe}\n{mean:.3f}", prediction[..., k][window]))
    return draw_panels(image, panels, results.classes, aspect)


def tested_on(results: StudyResults, recipe: str, case: Case) -> RunResults:
    """The first run of a recipe that was tested on a volume."""
    return next(run for run in results.recipes[recipe].runs if case in run.dice)


def draw_panels(
    image: np.ndarray, panels: Sequence[tuple[str, np.ndarray | None]], classes: Sequence[str], aspect: float
) -> str:
    """Draw panels beside each other, as PNG in base64."""
    colours = [COLOURS[index % len(COLOURS)] for index in range(len(classes) - 1)]
    palette = ListedColormap(["black", *colours])
    figure = Figure(figsize=(1.9 * len(panels), 2.6), layout="constrained")
    low, high = np.percentile(image, (1, 99))
    for axes, (title, labels) in zip(figure.subplots(1, len(panels)), panels, strict=True):
        axes.imshow(image.T, cmap="gray", vmin=low, vmax=high, aspect=aspect)
        if labels is not None:
            masked = np.ma.masked_where(labels <= 0, labels)
            axes.imshow(
                masked.T, cmap=palette, vmin=0, vmax=len(classes) - 1, alpha=0.5, interpolation="nearest", aspect=aspect
            )
        axes.set_title(title, fontsize=9)
        axes.set(xticks=[], yticks=[])
    handles = [Patch(color=colour, label=name) for colour, name in zip(colours, classes[1:], strict=True)]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize=8)
    return as_png(figure)


def heart_window(mask: np.ndarray) -> tuple[slice, ...]:
    """The part of a slice that holds a mask, with a margin."""
    if not mask.any():
        return tuple(slice(None) for _ in mask.shape)
    places = np.argwhere(mask)
    return tuple(
        slice(max(0, low - MARGIN), high + MARGIN + 1) for low, high in zip(places.min(0), places.max(0), strict=True)
    )


def item_of(run: RunResults, case: Case) -> Item:
    """The item of a test volume; refuse one that the datalist of the run does not have."""
    for item in run.datalist["test"]:
        noted = (item.get("dataset"), item["subject"], item.get("phase"), item.get("case"))
        if tuple(str(entry or "") for entry in noted) == case:
            return item.copy()
    raise DataError(f"{run.folder}: its datalist has no test volume {' '.join(case)}. Delete the folder and run again.")
