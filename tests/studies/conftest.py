"""A study that somebody else has run: folders with tables, made up but whole."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest

from dcl_monai.datalist import prediction_name, simulate_datalist, write_datalist
from dcl_monai.studies.settings import StudySettings, open_study, save_study

CLASSES = ["background", "RV", "MYO", "LV"]
PATIENTS = 8
NOTED = ("dataset", "subject", "phase", "case")


def label_map() -> np.ndarray:
    label = np.zeros((16, 16, 3), dtype=np.uint8)
    label[3:7, 3:7, 1], label[7:13, 3:13, 1], label[9:12, 6:10, 1] = 1, 2, 3
    return label


def write_data(data: Path, first: int = 0) -> dict[str, Any]:
    """Fully labelled volumes, of which only those of the test patients, by number from the first, exist on disk."""
    data.mkdir()

    def item(subject: str, phase: str) -> dict[str, Any]:
        names = {key: str(data / f"{subject}_{phase}_{key}.nii.gz") for key in ("image", "label")}
        noted = {"subject": subject, "dataset": "A", "case": f"{subject}/{phase}", "phase": phase}
        return {**names, **noted, "values": {j: [j] for j in range(4)}, "annotated": [1, 2, 3]}

    groups = {"training": range(8), "validation": range(2), "test": range(first, first + PATIENTS)}
    splits = {
        split: [item(f"{split}{k}", phase) for k in numbers for phase in ("ED", "ES")]
        for split, numbers in groups.items()
    }
    rng = np.random.default_rng(0)
    for volume in splits["test"]:
        affine = np.diag([1.5, 1.5, 8.0, 1.0])
        nib.save(nib.Nifti1Image(label_map(), affine), volume["label"])
        nib.save(nib.Nifti1Image(rng.normal(size=(16, 16, 3)).astype(np.float32), affine), volume["image"])
    return {"classes": CLASSES, "unions": {}, **splits}


@pytest.fixture(scope="session")
def made_up_study(tmp_path_factory) -> Callable[..., Path]:
    """
    Write a study; ``dice[recipe]`` gives the Dice of every structure, of patient k in the run of a seed. Half of its
    test patients are those of the next ``split_seed``, too.
    """

    def make(
        dice: dict[str, Callable[[int, int], float]],
        seeds: tuple[int, ...] = (0, 1),
        split_seed: int = 0,
        iterations: int = 500,
    ) -> Path:
        folder = tmp_path_factory.mktemp("made_up")
        out, data = folder / "study", folder / "data"
        full_datalist = write_data(data, first=split_seed * PATIENTS // 2)
        asked = {"dataset_dir": str(data), "epochs": (3, 1), "iterations": iterations, "split_seed": split_seed}
        settings: StudySettings = open_study(out, asked)
        save_study(out, settings)
        assert settings.task == "acdc"
        for recipe, score in dice.items():
            for seed in seeds:
                annotation = "full" if recipe == "unet_f" else "partial"
                datalist = simulate_datalist(full_datalist, None, annotation, 1, seed=seed)
                write_run(out / "runs" / recipe / f"seed{seed}", recipe, seed, score, datalist)
        return out

    return make


def write_run(folder: Path, recipe: str, seed: int, score: Callable[[int, int], float], datalist: dict) -> None:
    folder.mkdir(parents=True)
    write_datalist(datalist, folder / "datalist.json")
    volumes = [[item[key] for key in NOTED] for item in datalist["test"]]
    dice, surface, confusion = (
        [[*NOTED, *CLASSES[1:]]],
        [[*NOTED, "structure", "hd95", "assd"]],
        [[*NOTED, "truth", "predicted", "ml"]],
    )
    for noted in volumes:
        value = score(int(noted[1].removeprefix("test")), seed)
        dice.append([*noted, *[f"{value:.4f}"] * 3])
        for name in CLASSES[1:]:
            gone = recipe == "paper_1" and name == "RV" and noted[1] == "test0"
            surface.append([*noted, name, *(["inf"] * 2 if gone else [f"{10 * (1 - value):.4f}", "1.0"])])
        for truth in CLASSES:
            for predicted in CLASSES:
                confusion.append([*noted, truth, predicted, "90" if truth == predicted else "9"])
    tables = {"test_dice": dice, "test_surface": surface, "test_confusion": confusion}
    if recipe == "paper_6":
        tables["test_dice_shuffled"] = [
            dice[0],
            *([*line[:4], *[f"{float(v) - 0.1:.4f}" for v in line[4:]]] for line in dice[1:]),
        ]
    tables["history"] = [["epoch", "val_dice", "gradient_ratio"], [4, 0.5, 0.03]]
    for name, lines in tables.items():
        with (folder / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows(lines)
    (folder / "predictions").mkdir()
    for item in datalist["test"]:
        path = folder / "predictions" / prediction_name(item)
        nib.save(nib.Nifti1Image(label_map(), np.diag([1.5, 1.5, 8.0, 1.0])), path)
    attempts = [{"wall_seconds": 60, "cpu_seconds": 30, "max_rss_mb": 500, "host": "here", "outcome": "stopped"}] * 2
    record = {"recipe": recipe, "seed": seed, "status": "complete", "attempts": attempts, "versions": {"torch": "2"}}
    (folder / "run.json").write_text(json.dumps(record))
