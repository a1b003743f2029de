"""Putting a report together."""

from __future__ import annotations

import csv
from base64 import b64decode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined

import dcl_monai
from dcl_monai.utils.files import replace_atomic, write_atomic

from ..results import StudyResults, read_results
from ..settings import StudySettings, read_study
from ..tables import STUDIES
from .details import audit_pairs, audit_table, cost_table, surface_table, vital_table
from .figures import draw_cases, draw_labels, draw_overlays
from .tables import AVERAGE, ReportTable, fill_table, number, write_csv, write_latex
from .template import PAGE

__all__ = ["write_report"]

REFERENCES = ("dcl", "dcl_ce", "compatible_ce")
"""Recipe by which the pictures are ordered: the first of these that has results, else the first recipe."""


def write_report(out: str | Path) -> Path:
    """
    Write ``report.html``, one page with everything in it, and a folder ``report`` with its tables as CSV and LaTeX
    and its plots, but not the pictures of patients, as PNG.

    Args:
        out: folder of a study.

    Returns:
        the page.

    Raises:
        DataError: when there is nothing to report, or the runs cannot be compared.
    """
    out = Path(out)
    settings, results = read_study(out), read_results(out)
    tables = [fill_table(name, study, results, settings.task) for name, study in STUDIES.items()]
    tables = [table for table in tables if len(table.rows) > 1] or [table for table in tables if table.rows]
    for table in tables:
        write_csv(table, out / "report" / f"{table.name}.csv")
        write_latex(table, out / "report" / f"{table.name}.tex")
    cases, labels = [draw_cases(table, results) for table in tables], draw_labels(tables)
    for table, plot in zip(tables, cases, strict=True):
        write_plot(plot, out / "report" / f"{table.name}.png")
    write_plot(labels, out / "report" / "labels.png")
    write_cases(results, out / "report" / "cases.csv")
    page = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    text = page.from_string(PAGE).render(
        settings=settings,
        results=results,
        facts=facts(settings, results),
        tables=list(zip(tables, cases, strict=True)),
        labels=labels,
        surface=surface_table(results),
        vital=vital_table(results),
        audit=audit_table(results),
        pairs=len(audit_pairs(results)),
        cost=cost_table(results),
        overlays=draw_overlays(results, *shown_recipes(results, tables)),
        smallest=smallest_p(patients_of(results)),
        patients=patients_of(results),
        average=AVERAGE,
        number=number,
        version=dcl_monai.__version__,
        versions=next(iter(results.recipes.values())).runs[0].record.get("versions", {}),
    )
    write_atomic(out / "report.html", text)
    return out / "report.html"


def shown_recipes(results: StudyResults, tables: list[ReportTable]) -> tuple[list[str], str]:
    """Recipes of the pictures, those of the largest table, and the one that orders the cases."""
    largest = max(tables, key=lambda table: len(table.rows))
    recipes = list(dict.fromkeys(row.row.recipe for row in largest.rows))
    reference = next((name for name in REFERENCES if name in results.recipes), recipes[0])
    return [reference, *(name for name in recipes if name != reference)], reference


def patients_of(results: StudyResults) -> int:
    """Number of test patients."""
    return len({case[:2] for case in next(iter(results.recipes.values())).runs[0].dice})


def smallest_p(patients: int) -> float:
    """The smallest p that Wilcoxon's test can give."""
    return min(1.0, 2.0 ** (1 - patients))


def facts(settings: StudySettings, results: StudyResults) -> list[tuple[str, str]]:
    """What all runs share."""
    run = next(iter(results.recipes.values())).runs[0]
    sizes = [len({item["subject"] for item in run.datalist[s]}) for s in ("validation", "test")]
    seeds = sorted({run.seed for found in results.recipes.values() for run in found.runs})
    stage1, stage2 = settings.epochs
    shared: Mapping[str, Any] = {
        "bundle": settings.task,
        "data": settings.datalist or settings.dataset_dir or "synthetic",
        "subjects": f"{sizes[0]} validation, {sizes[1]} test; split seed {settings.split_seed}, the same for all runs",
        "budget": f"{stage1} + {stage2} epochs of {settings.iterations} iterations, the same for all rows",
        "seeds": ", ".join(map(str, seeds)),
        "overlays": ", ".join(settings.overlays) or "none",
        "settings": ", ".join(f"{name} = {value}" for name, value in settings.settings.items()) or "none",
    }
    return list(shared.items())


def write_plot(plot: str, path: Path) -> None:
    """Write a plot that is PNG in base64."""
    replace_atomic(path, lambda temporary: temporary.write_bytes(b64decode(plot)))


def write_cases(results: StudyResults, path: Path) -> None:
    """Write everything that was measured of every test volume, a line per run, volume and structure."""

    def write(temporary: Path) -> None:
        with temporary.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            head = ["recipe", "seed", "dataset", "subject", "phase", "case", "structure"]
            writer.writerow([*head, "dice", "dice_shuffled", "hd95_mm", "assd_mm"])
            for found in results.recipes.values():
                for run in found.runs:
                    for case, dice in run.dice.items():
                        for name, value in dice.items():
                            others = [table.get(case, {}).get(name, "") for table in (run.shuffled, run.hd95, run.assd)]
                            writer.writerow([run.recipe, run.seed, *case, name, value, *others])

    replace_atomic(path, write)
