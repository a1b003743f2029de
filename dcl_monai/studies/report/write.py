"""Putting a report together."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dcl_monai.datalist.splits import SPLITS
from dcl_monai.utils.files import replace_atomic, write_atomic
from dcl_monai.utils.page import render_page
from dcl_monai.utils.tables import write_table

from ..results import StudyResults, read_results
from ..settings import StudySettings, read_divisions
from ..tables import STUDIES
from .details import audit_pairs, audit_table, cost_table, diagnostics_table, division_table, surface_table
from .figures import draw_cases, draw_labels, draw_overlays
from .page import PAGE
from .tables import AVERAGE, ReportTable, fill_table, number, write_csv, write_latex

REFERENCES = ("dcl", "paper_6", "compatible_ce")
"""Recipe by which the pictures are ordered: the first of these that has results, else the first recipe."""


def write_report(*studies: str | Path, out: str | Path | None = None) -> Path:
    """
    Write ``report.html``, one page with everything in it, and a folder ``report`` with its tables as CSV and LaTeX
    and its plots, but not the pictures of patients, as PNG.

    Args:
        studies: folder of a study, or folders of several that differ in the division of the subjects alone.
        out: where to write; default: into the folder of the first.

    Returns:
        the page.

    Raises:
        DataError: when there is nothing to report, or the runs cannot be compared.
    """
    out = Path(studies[0] if out is None else out)
    divisions, results = read_divisions(studies), read_results(*studies)
    settings = divisions[0]
    tables = [fill_table(name, study, results, settings.task) for name, study in STUDIES.items()]
    tables = [table for table in tables if len(table.rows) > 1] or [table for table in tables if table.rows]
    if settings.is_short:
        for row in (row for table in tables for row in table.rows):
            row.tests.clear()
            row.corrected.clear()
    for table in tables:
        write_csv(table, out / "report" / f"{table.name}.csv")
        write_latex(table, out / "report" / f"{table.name}.tex")
    cases, labels = [draw_cases(table, results) for table in tables], draw_labels(tables)
    for table, plot in zip(tables, cases, strict=True):
        write_plot(plot, out / "report" / f"{table.name}.png")
    write_plot(labels, out / "report" / "labels.png")
    write_cases(results, out / "report" / "cases.csv")
    text = render_page(
        PAGE,
        settings=settings,
        results=results,
        facts=facts(divisions, results),
        divisions=len(divisions),
        mixed=mixed_configs(results),
        by_division=division_table(results),
        tables=list(zip(tables, cases, strict=True)),
        labels=labels,
        surface=surface_table(results),
        diagnostics=diagnostics_table(results),
        audit=audit_table(results),
        pairs=len({frozenset(pair) for pair in audit_pairs(results)}),
        cost=cost_table(results),
        overlays=draw_overlays(results, *shown_recipes(results, tables)),
        smallest=min(1.0, 2.0 ** (1 - len(results.patients))),  # p that Wilcoxon's test can give
        patients=len(results.patients),
        average=AVERAGE,
        number=number,
        versions=results.runs[0].record.get("versions", {}),
    )
    write_atomic(out / "report.html", text)
    return out / "report.html"


def shown_recipes(results: StudyResults, tables: list[ReportTable]) -> tuple[list[str], str]:
    """Recipes of the pictures, those of the largest table, and the one that orders the cases."""
    largest = max(tables, key=lambda table: len(table.rows))
    recipes = list(dict.fromkeys(row.row.recipe for row in largest.rows))
    reference = next((name for name in REFERENCES if name in results.recipes), recipes[0])
    return [reference, *(name for name in recipes if name != reference)], reference


def facts(divisions: Sequence[StudySettings], results: StudyResults) -> list[tuple[str, str]]:
    """What all runs share."""
    settings = divisions[0]
    # rows with fewer labels may have fewer subjects
    sizes = {s: max(len({item["subject"] for item in run.annotations[s]}) for run in results.runs) for s in SPLITS}
    subjects = ", ".join(f"{size} {split}" for split, size in sizes.items())
    if len(divisions) == 1:
        subjects += f"; split seed {settings.split_seed}, fold {settings.fold}, the same for all runs"
    else:
        subjects += f" in each of {len(divisions)} divisions; split seeds (and folds) " + listed(
            f"{study.split_seed} ({study.fold})" for study in divisions
        )
    stage1, stage2 = settings.epochs
    interval = settings.settings.get("val_interval", settings.val_interval)
    shared: Mapping[str, Any] = {
        "bundle": settings.task,
        "data": settings.datalist or settings.dataset_dir or "synthetic",
        "subjects": subjects,
        "budget": f"{stage1} + {stage2} epochs of {settings.iterations} iterations, "
        f"validation every {interval} epoch(s), the same for all rows",
        "seeds": listed(sorted({run.seed for run in results.runs})),
        "overlays": ", ".join(settings.overlays) or "none",
        "settings": ", ".join(f"{name} = {value}" for name, value in settings.settings.items()) or "none",
        "commits": listed(sorted({commit_of(attempt) for run in results.runs for attempt in run.record["attempts"]})),
    }
    return list(shared.items())


def commit_of(attempt: Mapping[str, Any]) -> str:
    """The commit of the project that an attempt was made with."""
    state = attempt.get("git") or {}
    return state.get("commit", "unknown")[:7] + (" and changes" if state.get("changed") else "")


def mixed_configs(results: StudyResults) -> list[str]:
    """Config files that were not the same in all runs that they belong to."""
    hashes: dict[str, set[str]] = {}
    for run in results.runs:
        for name, found in run.record.get("configs", {}).items():
            hashes.setdefault(name, set()).add(found)
    return sorted(name for name, found in hashes.items() if len(found) > 1)


def listed(values: Iterable[object]) -> str:
    """Values in a line."""
    return ", ".join(map(str, values))


def write_plot(plot: str, path: Path) -> None:
    """Write a plot that is PNG in base64."""
    replace_atomic(path, lambda temporary: temporary.write_bytes(b64decode(plot)))


def write_cases(results: StudyResults, path: Path) -> None:
    """Write everything that was measured of every test volume, a line per run, volume and structure."""
    head = ["recipe", "split_seed", "fold", "seed", "dataset", "subject", "phase", "case", "structure"]
    lines: list[list[object]] = [[*head, "dice", "dice_shuffled", "hd95_mm", "assd_mm"]]
    for run in results.runs:
        for case, dice in run.dice.items():
            for name, value in dice.items():
                others = [table.get(case, {}).get(name, "") for table in (run.shuffled, run.hd95, run.assd)]
                lines.append([run.recipe, *run.division, run.seed, *case, name, value, *others])
    write_table(path, lines)
