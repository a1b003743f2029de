"""One run of a study: a folder, the steps that fill it, and its record ``run.json``."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dcl_monai.bundle.command_line import check_overlays
from dcl_monai.bundle.resources import bundle_folder, overlay_folder
from dcl_monai.utils import DataError, as_literal
from dcl_monai.utils.files import file_hash, write_atomic
from dcl_monai.utils.locks import is_locked
from dcl_monai.utils.provenance import git_state, read_record, versions
from dcl_monai.utils.tables import read_table

from .recipes import RECIPES, Recipe
from .settings import StudySettings

RUN_IDS = (
    "dataset_dir",
    "datalist#source",
    "split",
    "output_dir",
    "model_file",
    "seed",
    "split_seed",
    "fold",
    "stage1_epochs",
    "stage2_epochs",
    "iterations_per_epoch",
    "test_details",
    "resume",
)
"""Ids that every run sets by itself."""


@dataclass(frozen=True)
class Step:
    """A command of a run."""

    name: str  # what it does
    folder: Path  # where it writes
    workflow: str  # id of the configuration that it runs
    files: tuple[str, ...]  # config files, the last of which is written by :meth:`write`
    settings: Mapping[str, Any]  # content of that file
    result: Path  # file that is there when the step is done
    epochs: int = 0  # epochs that it trains

    @property
    def command(self) -> list[str]:
        """The words of the command; its working directory is the bundle."""
        files = json.dumps([*self.files, str(self.folder / f"{self.name}.json")])
        return [sys.executable, "-m", "monai.bundle", "run", self.workflow, "--config_file", files]

    def write(self) -> None:
        """Write the settings, so that the command can be repeated by hand."""
        write_atomic(self.folder / f"{self.name}.json", json.dumps(dict(self.settings), indent=2) + "\n")

    def epochs_done(self) -> int:
        """Epochs that were trained so far."""
        if not self.epochs:
            return 0
        return int(float(last_line(self.folder / "history.csv").get("epoch", 0)))


@dataclass(frozen=True)
class Run:
    """A recipe trained with a seed."""

    recipe: str  # name of the recipe
    seed: int  # seed of weights, batches and hidden classes
    folder: Path  # everything of the run
    steps: tuple[Step, ...]  # what is to be done, in this order
    cwd: Path  # working directory of the commands

    @property
    def name(self) -> str:
        """Name in messages."""
        return f"{self.recipe} seed {self.seed}"

    @property
    def log(self) -> Path:
        """What the commands print."""
        return self.folder / "log.txt"

    @property
    def epochs(self) -> int:
        """Epochs in all."""
        return sum(step.epochs for step in self.steps)

    def epochs_done(self) -> int:
        """Epochs that were trained so far."""
        return sum(step.epochs_done() for step in self.steps)

    def record(self) -> dict[str, Any]:
        """What ``run.json`` says; empty before the first start."""
        return read_record(self.folder / "run.json")

    def configs(self) -> dict[str, str]:
        """Hash of every config file of its recipe, by its name within the project."""
        return {
            portable_name(path): file_hash(path)
            for path in dict.fromkeys(Path(file) for step in self.steps for file in step.files)
        }

    def check(self) -> None:
        """Refuse a run that was started with another recipe than that of today."""
        earlier = self.record().get("configs")
        now = self.configs()
        if earlier is None or earlier == now:
            return
        changed = [name for name in {**earlier, **now} if earlier.get(name) != now.get(name)]
        raise DataError(
            f"{self.folder}: was started with another {', '.join(changed)}, so one table would mix two recipes. Give "
            "another --out, or delete this folder to train it again."
        )

    def is_complete(self) -> bool:
        """Whether there is nothing left to do."""
        return self.record().get("status") == "complete" and self.steps[-1].result.is_file()

    def status(self) -> str:
        """What has become of it: complete, running, stopped, failed, or waiting for its start."""
        if self.is_complete():
            return "complete"
        if is_locked(self.folder):
            return "running"
        noted = str(self.record().get("status", "waiting"))
        return "stopped" if noted == "running" else noted  # its process was killed

    def note(self, status: str, attempt: Mapping[str, Any] | None = None) -> None:
        """Write ``run.json``: the status, and an attempt that ended."""
        earlier = self.record().get("attempts", [])
        record = {
            "recipe": self.recipe,
            "seed": self.seed,
            "status": status,
            "configs": self.configs(),
            "commands": {step.name: step.command for step in self.steps},
            "working_directory": str(self.cwd),
            "versions": versions(),
            "git": git_state(),
            "attempts": [*earlier, dict(attempt)] if attempt else earlier,
        }
        write_atomic(self.folder / "run.json", json.dumps(record, indent=2) + "\n")


def make_run(out: str | Path, settings: StudySettings, recipe: str, seed: int) -> Run:
    """Plan a run of a study, whose folder is ``out``."""
    content = RECIPES[recipe]
    folder = Path(out).resolve() / "runs" / recipe / f"seed{seed}"
    if not content.teacher:
        steps = [training(folder, "training", settings, content, seed, settings.epochs)]
    else:
        # half of the budget for the teacher, the rest for the student
        first_half, second_half = halves(settings.epochs, recipe)
        teacher = replace(content, overlays=content.teacher)
        first = training(folder / "teacher", "teacher", settings, teacher, seed, first_half)
        first = replace(first, settings={**first.settings, "test_details": False})
        relabel = Step(
            "relabelling",
            first.folder,
            "relabelling",
            (*first.files, str(overlay_folder() / "relabel.json")),
            {**first.settings, "pseudo_dir": as_literal(folder / "pseudo")},
            folder / "pseudo" / "datalist.json",
        )
        second = training(folder, "training", settings, content, seed, second_half)
        second = replace(second, settings={**second.settings, "datalist": as_literal(relabel.result)})
        steps = [first, relabel, second]
    return Run(recipe, seed, folder, tuple(steps), settings.bundle_dir)


def portable_name(path: Path) -> str:
    """Name of a config file that is the same on every machine: below ``bundles/`` or ``configs/``, or its own."""
    for home in (bundle_folder(), overlay_folder()):
        if path.is_relative_to(home):
            return str(home.name / path.relative_to(home))
    return path.name


def halves(epochs: tuple[int, int], recipe: str) -> tuple[tuple[int, int], tuple[int, int]]:
    """Divide a budget of two epochs or more between two trainings, with stages in the same proportion."""
    total = sum(epochs)
    if total < 2:
        raise DataError(f"{recipe}: one epoch is too few for its two trainings. Give --epochs 1 1 or more.")

    def stages(number: int) -> tuple[int, int]:
        stage2 = min(number - 1, round(number * epochs[1] / total))
        return number - stage2, stage2

    return stages(total // 2), stages(total - total // 2)


def training(
    folder: Path, name: str, settings: StudySettings, recipe: Recipe, seed: int, epochs: tuple[int, int]
) -> Step:
    """The step that trains and tests."""
    overlays = [*settings.overlay_files, *(overlay_folder() / overlay for overlay in recipe.overlays)]
    check_overlays(overlays)
    stage2 = epochs[1] if recipe.two_stages else 0
    shared: dict[str, Any] = {
        "dataset_dir": settings.dataset_dir and as_literal(settings.dataset_dir),
        "datalist#source": settings.datalist and as_literal(settings.datalist),
        "split": None if settings.split is None else list(settings.split),
    }
    if settings.is_own:
        shared = {"datalist": settings.datalist and as_literal(settings.datalist)}
    return Step(
        name,
        folder,
        "training",
        (str(settings.bundle_dir / "configs" / "train.json"), *map(str, overlays)),
        {
            **{key: value for key, value in shared.items() if value is not None},
            **({"annotation": "given", "split": settings.split} if settings.as_is and not settings.is_own else {}),
            "val_interval": settings.val_interval,
            **settings.settings,
            **recipe.settings,
            "output_dir": as_literal(folder),
            "model_file": as_literal(folder / "model.pt"),
            "seed": seed,
            "split_seed": settings.split_seed,
            "fold": settings.fold,
            "stage1_epochs": sum(epochs) - stage2,
            "stage2_epochs": stage2,
            "iterations_per_epoch": settings.iterations,
            "test_details": True,
            "resume": True,
        },
        folder / "test_dice.csv",
        sum(epochs),
    )


def runs_of(out: str | Path) -> list[tuple[str, int, Path]]:
    """Recipe, seed and folder of all runs that a study has, finished or not."""
    found = []
    for path in sorted((Path(out) / "runs").glob("*/seed*/run.json")):
        number = path.parent.name.removeprefix("seed")
        if number.isdigit():
            found.append((path.parent.parent.name, int(number), path.parent))
    return sorted(found)


def last_line(path: Path) -> dict[str, str]:
    """The last line of a table; empty if there is none."""
    lines = read_table(path)
    return lines[-1] if lines else {}
