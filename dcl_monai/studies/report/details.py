"""Tables beside Dice: surface distances, use of conditions, false positives, cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import methodcaller

from ..results import RecipeResults, StudyResults
from ..statistics import summarize
from .tables import NOTHING, number


@dataclass
class DetailTable:
    """A simple table of text."""

    head: list[str]  # names of the columns
    rows: list[list[str]]  # cells


def division_table(results: StudyResults) -> DetailTable:
    """Average Dice in each division of the subjects."""
    divisions = list(dict.fromkeys(run.division for run in results.runs))
    rows = []
    for name, found in results.recipes.items():
        parts = [RecipeResults(name, [run for run in found.runs if run.division == d]) for d in divisions]
        means = [summarize(list(part.by_patient(results.structures).values())).mean for part in parts]
        rows.append([name, *map(number, means)])
    return DetailTable(["recipe", *(f"split seed {seed}, fold {fold}" for seed, fold in divisions)], rows)


def surface_table(results: StudyResults) -> DetailTable:
    """HD95 and average symmetric surface distance in mm over patients, and how often a structure was missed."""
    head = ["recipe"]
    for structure in results.structures:
        head += [f"{structure} HD95", f"{structure} ASSD", f"{structure} missed"]
    rows = []
    for name, found in results.recipes.items():
        cells = [name]
        for structure in results.structures:
            for table in ("hd95", "assd"):
                value = summarize(list(found.by_patient([structure], table=table).values()))
                cells.append(f"{mm(value.mean)} ± {mm(value.deviation)}" if value.patients else NOTHING)
            missed, shown = found.missed(structure)
            cells.append(f"{missed} of {shown}" if shown else NOTHING)
        rows.append(cells)
    return DetailTable(head, rows)


def diagnostics_table(results: StudyResults) -> DetailTable:
    """Do the conditions matter? Test Dice as it is, with conditions of another image, and of the wrong class."""
    rows = []
    for name, found in results.recipes.items():
        runs = [run for run in found.runs if run.shuffled]
        if not runs:
            continue
        own = RecipeResults(name, runs)
        plain, shuffled = (own.by_patient(results.structures, table=table) for table in ("dice", "shuffled"))
        wrong = summarize(list(own.by_patient(results.structures, table="wrong_class").values()))
        ratios = [float(run.diagnostics["gradient_ratio"]) for run in runs if run.diagnostics.get("gradient_ratio")]
        lost = summarize([plain[patient] - shuffled[patient] for patient in plain if patient in shuffled])
        rows.append(
            [
                name,
                number(summarize(list(plain.values())).mean),
                number(summarize(list(shuffled.values())).mean),
                f"{number(lost.mean)} [{number(lost.low)}, {number(lost.high)}]",
                number(wrong.mean) if wrong.patients else NOTHING,
                number(sum(ratios) / len(ratios)) if ratios else NOTHING,
            ]
        )
    head = ["recipe", "Dice", "Dice, conditions shuffled", "lost by shuffling [95% CI]"]
    head += ["Dice, conditions of the wrong class", "gradient ratio, last epoch"]
    return DetailTable(head, rows)


def audit_pairs(results: StudyResults) -> list[tuple[str, str]]:
    """
    Pairs (true class, predicted class) that no training subject showed together, in every run with partial labels, so
    that all rows are measured by the same pairs.
    """
    partial = [pairs for found in results.recipes.values() for run in found.runs if (pairs := run.never_together())]
    shared = set.intersection(*partial) if partial else set()
    return sorted(shared, key=lambda pair: (results.classes.index(pair[1]), results.classes.index(pair[0])))


def audit_table(results: StudyResults) -> DetailTable:
    """
    Volume that a structure takes, by mistake, of classes that were never annotated together with it: in percent of the
    structure's true volume, over all test volumes and seeds.
    """
    pairs = audit_pairs(results)
    wrong = [name for name in results.structures if any(predicted == name for _, predicted in pairs)]
    rows = []
    for name, found in results.recipes.items():
        cells = [name]
        for structure in wrong:
            for kind in ("background", "other structures"):
                truths = [t for t, p in pairs if p == structure and (t == results.classes[0]) == (kind == "background")]
                cells.append(percent(taken(found, truths, structure), volume(found, structure)) if truths else NOTHING)
        rows.append(cells)
    head = ["recipe", *(f"{name} on {kind}" for name in wrong for kind in ("background", "other structures"))]
    return DetailTable(head, rows if wrong else [])


def taken(found: RecipeResults, truths: Sequence[str], predicted: str) -> float:
    """Volume in ml of some true classes that was predicted to be another."""
    return sum(pairs.get((t, predicted), 0.0) for run in found.runs for pairs in run.confusion.values() for t in truths)


def volume(found: RecipeResults, structure: str) -> float:
    """True volume in ml of a structure."""
    return sum(
        ml for run in found.runs for pairs in run.confusion.values() for (t, _), ml in pairs.items() if t == structure
    )


def cost_table(results: StudyResults) -> DetailTable:
    """What a run costs, on average over the seeds."""
    rows = []
    for name, found in results.recipes.items():
        attempts = [attempt for run in found.runs for attempt in run.record.get("attempts", [])]
        memory = max((attempt.get("max_rss_mb", 0) for attempt in attempts), default=0)
        hosts = sorted({str(attempt.get("host")) for attempt in attempts})
        times = [found.mean_of(methodcaller("cost", key)) / 60 for key in ("wall_seconds", "cpu_seconds")]
        rows.append([name, str(len(found.runs)), *(f"{time:.1f}" for time in times), str(memory), ", ".join(hosts)])
    return DetailTable(["recipe", "runs", "wall time (min)", "CPU time (min)", "peak memory (MB)", "machine"], rows)


def mm(value: float) -> str:
    """A distance."""
    return NOTHING if math.isnan(value) else f"{value:.1f}"


def percent(part: float, whole: float) -> str:
    """A share."""
    return f"{100 * part / whole:.1f}%" if whole else NOTHING
