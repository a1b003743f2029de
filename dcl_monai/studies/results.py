"""Reading what the runs of a study have found."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path
from typing import Any

from dcl_monai.datalist import Datalist, load_datalist
from dcl_monai.datalist.items import decided_classes
from dcl_monai.utils import DataError
from dcl_monai.utils.provenance import read_record
from dcl_monai.utils.tables import read_table

from .runs import last_line, runs_of
from .settings import read_divisions
from .statistics import patient_means, summarize

NOTED = ("dataset", "subject", "phase", "case")
Case = tuple[str, str, str, str]
"""Data set, subject, phase and case of a test volume; empty where the datalist does not say."""


@dataclass(frozen=True)
class RunResults:
    """What a complete run has found."""

    recipe: str  # its recipe
    seed: int  # its seed
    folder: Path  # where it lies
    division: tuple[int, int]  # seed of the division of the subjects, and fold
    record: Mapping[str, Any]  # its ``run.json``
    datalist: Datalist  # what it was trained and tested on
    # test volume -> structure -> Dice; structures that a volume does not show are missing
    dice: Mapping[Case, Mapping[str, float]]
    # the same with shuffled conditions; empty for a network without conditions
    shuffled: Mapping[Case, Mapping[str, float]]
    wrong_class: Mapping[Case, Mapping[str, float]]  # the same with conditions of the wrong class
    hd95: Mapping[Case, Mapping[str, float]]  # the same in mm; ``inf`` where the prediction missed the structure
    assd: Mapping[Case, Mapping[str, float]]  # the same of the average symmetric surface distance
    confusion: Mapping[Case, Mapping[tuple[str, str], float]]  # test volume -> (true class, predicted class) -> ml
    diagnostics: Mapping[str, str]  # last values of the history

    @property
    def annotations(self) -> Datalist:
        """The datalist that annotators made: that of the teacher, where the labels were completed by predictions."""
        teacher = self.folder / "teacher" / "datalist.json"
        return load_datalist(teacher) if teacher.is_file() else self.datalist

    def shown(self) -> dict[str, set[int]]:
        """Classes that annotators drew, by training subject."""
        content = self.annotations
        shown: dict[str, set[int]] = {}
        for item in content["training"]:
            shown.setdefault(item["subject"], set()).update(decided_classes(item, len(content["classes"])))
        return shown

    def labels(self) -> int:
        """Labels that annotators drew: classes of every training subject, background included."""
        return sum(map(len, self.shown().values()))

    def never_together(self) -> set[tuple[str, str]]:
        """Pairs of classes that no training subject shows together."""
        together = {pair for drawn in self.shown().values() for pair in permutations(drawn, 2)}
        classes = self.datalist["classes"]
        return {(classes[i], classes[j]) for i, j in set(permutations(range(len(classes)), 2)) - together}

    def cost(self, name: str) -> float:
        """Sum of ``wall_seconds`` or ``cpu_seconds`` over all attempts."""
        return sum(float(attempt.get(name, 0.0)) for attempt in self.record.get("attempts", []))


@dataclass
class RecipeResults:
    """The runs of a recipe."""

    name: str  # the recipe
    runs: list[RunResults] = field(default_factory=list)  # its complete runs, by division and seed

    def by_patient(
        self, structures: Sequence[str], phase: str | None = None, table: str = "dice"
    ) -> dict[tuple[str, str], float]:
        """
        Average the test volumes of each patient, over structures, then phases and seeds, then the divisions of the
        subjects that test him: a division with more seeds does not count more.

        Args:
            structures: structures to average; those that a volume does not show do not count.
            phase: only this phase; default: all.
            table: ``dice``, ``shuffled``, ``wrong_class``, ``hd95`` or ``assd``; infinite distances do not count (see
                :meth:`missed`).

        Returns:
            (data set, subject) -> mean, for patients that have any.
        """
        values: dict[Any, dict[Any, list[float]]] = {}
        for run in self.runs:
            for (dataset, subject, case_phase, _), scores in getattr(run, table).items():
                if phase is not None and case_phase != phase:
                    continue
                shown = [scores[s] for s in structures if s in scores and math.isfinite(scores[s])]
                measured = values.setdefault((dataset, subject), {}).setdefault(run.division, [])
                measured.append(sum(shown) / len(shown) if shown else math.nan)
        return patient_means({patient: list(patient_means(found).values()) for patient, found in values.items()})

    def seed_deviation(self, structures: Sequence[str]) -> float:
        """How much the mean over patients varies with the seed, within divisions; ``nan`` if none has two seeds."""
        means: dict[tuple[int, int], list[float]] = {}
        for run in self.runs:
            patients = RecipeResults(self.name, [run]).by_patient(structures)
            means.setdefault(run.division, []).append(summarize(list(patients.values())).mean)
        variances = [summarize(found).deviation ** 2 for found in means.values() if len(found) > 1]
        return math.sqrt(sum(variances) / len(variances)) if variances else math.nan

    def missed(self, structure: str) -> tuple[int, int]:
        """How often a structure was missed altogether, and how often it was there, over volumes and seeds."""
        distances = [scores[structure] for run in self.runs for scores in run.hd95.values() if structure in scores]
        return sum(map(math.isinf, distances)), len(distances)

    def mean_of(self, measure: Callable[[RunResults], float]) -> float:
        """Mean of something over the runs."""
        return sum(map(measure, self.runs)) / len(self.runs) if self.runs else math.nan


@dataclass
class StudyResults:
    """All complete runs of a study."""

    recipes: dict[str, RecipeResults]  # recipe -> its runs
    structures: list[str]  # names of the structures, without background
    unions: list[str]  # names of unions that were measured
    classes: list[str]  # names of all classes
    phases: list[str]  # phases of the test volumes, in order; empty if the data has none
    unfinished: list[str]  # names of runs that are not complete, and of recipes that not every division has

    @property
    def runs(self) -> list[RunResults]:
        """All runs."""
        return [run for found in self.recipes.values() for run in found.runs]

    @property
    def patients(self) -> set[tuple[str, str]]:
        """Data set and subject of all test patients."""
        return {case[:2] for run in self.runs for case in run.dice}


def read_results(*outs: str | Path) -> StudyResults:
    """
    Read the runs of a study.

    Args:
        outs: its folder; or folders of studies that divide the same subjects differently. Recipes that not all of them
            have are left out: they would be compared on other patients.

    Raises:
        DataError: when there is no complete run, or runs cannot be compared.
    """
    divisions = [read_division(out, study.division) for out, study in zip(outs, read_divisions(outs), strict=True)]
    unfinished = [name for _, names in divisions for name in names]
    recipes: dict[str, RecipeResults] = {}
    for name in dict.fromkeys(name for found, _ in divisions for name in found):
        shared = [found[name] for found, _ in divisions if name in found]
        if len(shared) == len(divisions):
            recipes[name] = RecipeResults(name, [run for runs in shared for run in runs])
        else:
            unfinished.append(f"{name} (in {len(shared)} of {len(divisions)} divisions)")
    if not recipes:
        raise DataError("These studies have no row that is complete in all of them. Run python -m dcl_monai study.")
    first = next(iter(recipes.values())).runs[0]
    classes = list(first.datalist["classes"])
    other = next((run for found in recipes.values() for run in found.runs if run.datalist["classes"] != classes), None)
    if other is not None:
        raise DataError(
            f"{other.folder}: has other classes than {first.folder}, so they cannot be compared. Report each alone."
        )
    shown = {name for scores in first.dice.values() for name in scores}
    return StudyResults(
        recipes,
        [name for name in classes[1:] if name in shown],
        [name for name in first.datalist["unions"] if name in shown],
        classes,
        sorted({case[2] for case in first.dice} - {""}),
        unfinished,
    )


def read_division(out: str | Path, division: tuple[int, int]) -> tuple[dict[str, list[RunResults]], list[str]]:
    """
    Read the complete runs of a study by recipe, and the names of the others; refuse runs on different test volumes.
    """
    recipes: dict[str, list[RunResults]] = {}
    unfinished = []
    tested: tuple[Path, frozenset[Case]] | None = None
    for recipe, seed, folder in runs_of(out):
        record = read_record(folder / "run.json")
        if record.get("status") != "complete":
            unfinished.append(f"{recipe} seed {seed} ({record.get('status', 'unknown')})")
            continue
        run = read_run(recipe, seed, folder, division, record)
        cases = frozenset(run.dice)
        if tested is not None and tested[1] != cases:
            raise DataError(
                f"{folder}: was tested on other volumes than {tested[0]}; only runs with one split can be compared. "
                "Delete one of the two folders and run it again."
            )
        tested = tested or (folder, cases)
        recipes.setdefault(recipe, []).append(run)
    if not recipes:
        raise DataError(
            f"{out}: has no complete run yet ({len(unfinished)} unfinished). Run python -m dcl_monai study."
        )
    return recipes, unfinished


def read_run(recipe: str, seed: int, folder: Path, division: tuple[int, int], record: Mapping[str, Any]) -> RunResults:
    """Read the tables of a run."""
    surface = read_table(folder / "test_surface.csv")
    confusion: dict[Case, dict[tuple[str, str], float]] = {}
    for line in read_table(folder / "test_confusion.csv"):
        confusion.setdefault(case_of(line), {})[line["truth"], line["predicted"]] = float(line["ml"])
    datalist = load_datalist(folder / "datalist.json")
    names = [*datalist["classes"][1:], *datalist["unions"]]
    return RunResults(
        recipe,
        seed,
        folder,
        division,
        record,
        datalist,
        read_dice(folder / "test_dice.csv", names),
        read_dice(folder / "test_dice_shuffled.csv", names),
        read_dice(folder / "test_dice_wrong_class.csv", names),
        by_structure(surface, "hd95"),
        by_structure(surface, "assd"),
        confusion,
        last_line(folder / "history.csv"),
    )


def read_dice(path: Path, names: Sequence[str]) -> dict[Case, dict[str, float]]:
    """Dice of a table by volume and structure; empty if there is none."""
    return {case_of(line): {name: float(line[name]) for name in names if line.get(name)} for line in read_table(path)}


def by_structure(lines: Sequence[Mapping[str, str]], column: str) -> dict[Case, dict[str, float]]:
    """A column of a table with a line per volume and structure."""
    result: dict[Case, dict[str, float]] = {}
    for line in lines:
        result.setdefault(case_of(line), {})[line["structure"]] = float(line[column])
    return result


def case_of(line: Mapping[str, str]) -> Case:
    """Volume of a line."""
    dataset, subject, phase, case = (line.get(key) or "" for key in NOTED)
    return dataset, subject, phase, case
