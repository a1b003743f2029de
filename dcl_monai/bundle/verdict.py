"""The end of a training in one line: how good it is, and whether the conditions did anything."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import ignite.distributed as idist
import numpy as np
import torch

from dcl_monai.networks import load_model
from dcl_monai.utils.tables import read_table

from .record import finish_record

ALARMING = 0.1
"""Dice of a structure that was not found."""
MATTERS = 0.01
"""Dice that the right conditions add, from which on they are said to matter."""


def give_verdict(output_dir: str | Path, classes: Sequence[str]) -> str:
    """Judge a training by ``test_dice.csv`` and ``history.csv`` in its folder; background is the first class."""
    volumes = read_table(Path(output_dir) / "test_dice.csv")
    rows = [row for row in read_table(Path(output_dir) / "history.csv") if row.get("val_dice")]
    best = max(rows, key=lambda row: float(row["val_dice"]), default={})
    parts = []
    columns = list(volumes[0]) if volumes else []
    measured = columns[columns.index(classes[1]) :] if volumes else []  # classes, then unions
    dice = {name: [float(row[name]) for row in volumes if row[name]] for name in measured}
    if volumes:
        unions = [name for name in measured[len(classes) - 1 :] if dice[name]]
        means = {name: float(np.mean(dice[name])) for name in classes[1:] if dice[name]}
        if means:
            shown = ", ".join(f"{name} {value:.3f}" for name, value in means.items())
            parts.append(f"test Dice {np.mean(list(means.values())):.3f} ({shown}), {len(volumes)} volumes")
        means |= {name: float(np.mean(dice[name])) for name in unions}
        parts += [f"{name} {means[name]:.3f}" for name in unions]
    else:
        means = {name: float(best[f"val_dice_{name}"]) for name in classes[1:] if best.get(f"val_dice_{name}")}
        parts.append(f"validation Dice {float(best['val_dice']):.3f}, no test" if best else "nothing was measured")
    unmeasured = [name for name in classes[1:] if name not in means]
    if unmeasured:
        parts.append(f"{', '.join(unmeasured)} not measured: no volume has it annotated on its own")
    if best.get("shuffled_dice"):
        right, shuffled = float(best["val_dice"]), float(best["shuffled_dice"])
        matter = "the conditions matter" if right - shuffled >= MATTERS else "the conditions hardly matter"
        parts.append(f"validation Dice {right:.3f}, with shuffled conditions {shuffled:.3f}: {matter}")
    bad = [name for name, value in means.items() if value < ALARMING]
    if bad:
        found = f"{', '.join(bad)} {'was' if len(bad) == 1 else 'were'} not found"
        parts.append(f"ALARM: {found}. Look at overlays.png, check the labels, or train longer")
    return "verdict: " + "; ".join(parts) + "."


def print_summary(output_dir: str, model_file: str, bundle_root: str) -> None:
    """
    Print where a training has left its results, how good they are, and the command that comes next.

    Args:
        output_dir: folder of the training.
        model_file: its model.
        bundle_root: folder of the bundle.
    """
    if idist.get_rank() > 0:
        return
    classes = json.loads((Path(output_dir) / "datalist.json").read_text(encoding="utf-8"))["classes"]
    verdict = give_verdict(output_dir, classes)
    finish_record(output_dir, verdict)
    carries = load_model(model_file)["model"].get("bank.images", torch.zeros(0)).dim() > 4
    print(f"model: {model_file}" + " (contains training images: its conditional bank)" * carries)
    print(f"test table, curves.png, overlays.png, history.csv, record.json, training.log, config.json: {output_dir}")
    print(verdict)
    print(
        f"next: python -m monai.bundle run --config_file {bundle_root}/configs/inference.json --model_file "
        f"{model_file} --dataset_dir <folder of NIfTI files> --output_dir <folder>"
    )
