"""The tables of the paper, filled with our numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dcl_monai.utils.files import write_atomic
from dcl_monai.utils.tables import write_table

from ..paper import paper_scores
from ..results import RunResults, StudyResults
from ..statistics import Comparison, Summary, compare, holm, summarize
from ..tables import Row, Study

AVERAGE = "average"
ALPHA = 0.05
NOTHING = "\N{EN DASH}"
FULL = ("unet_f", "unet_f_region", "unet_f_staged")
"""Recipes with all labels: the best of those that were trained is what all others are measured by."""


@dataclass
class ReportRow:
    """A row with its numbers."""

    row: Row  # the row of the study
    label: str  # its name
    group: str  # heading of the rows it belongs to, which may begin with a row that has no results
    marks: list[bool]  # which columns of marks it has
    runs: int  # number of complete runs
    labels: float  # labels that annotators drew
    cells: dict[str, Summary]  # place -> mean over patients
    seed_deviation: float  # standard deviation of the average over the seeds, ``nan`` for one seed
    share: float  # average in parts of that with all labels, ``nan`` without such a run
    tests: dict[str, Comparison] = field(default_factory=dict)  # place -> comparison with the row it is tested against
    corrected: dict[str, float] = field(default_factory=dict)  # place -> p after Holm's correction
    # place -> mean and standard deviation that the paper prints
    paper: dict[str, tuple[float, float | None]] = field(default_factory=dict)

    def star(self, place: str) -> str:
        """``*`` for a significant gain over the row it is tested against, a small arrow for a significant loss."""
        if not self.corrected.get(place, 1.0) < ALPHA:
            return ""
        return "*" if self.tests[place].difference > 0 else "\N{DOWNWARDS ARROW}"


@dataclass
class ReportTable:
    """A table."""

    name: str  # name of the study
    study: Study  # the study
    places: list[str]  # columns of numbers, ``ED LV`` or ``LV``; the average comes after the structures
    rows: list[ReportRow]  # rows that have results
    missing: list[str]  # labels of rows that have none yet

    def best(self, place: str) -> float:
        """The largest mean of a column, as it is printed."""
        return max(
            (round(row.cells[place].mean, 3) for row in self.rows if row.cells[place].patients), default=math.nan
        )

    def label_of(self, recipe: str | None) -> str:
        """Label of the row of a recipe."""
        return next((row.label for row in self.rows if row.row.recipe == recipe), "")


def places_of(results: StudyResults) -> list[tuple[str, str | None, Sequence[str]]]:
    """Columns of numbers: name, phase, and structures that are averaged."""
    phases: list[str | None] = list(results.phases) or [None]
    single = [
        (f"{phase} {structure}" if phase else structure, phase, (structure,))
        for phase in phases
        for structure in results.structures
    ]
    return [*single, (AVERAGE, None, results.structures), *((union, None, (union,)) for union in results.unions)]


def fill_table(name: str, study: Study, results: StudyResults, task: str) -> ReportTable:
    """
    Fill a table.

    The patient is the unit of every mean and of every test. Holm's correction is over the averages of all rows, which
    answer the question of the table, and apart from them over all structures and phases, which say where it comes from.
    The paper's numbers are found by ``task``, the name of the bundle.
    """
    places = places_of(results)
    net = "nnUNet" if task == "mmwhs" else "UNet"
    full = [results.recipes[name].by_patient(results.structures) for name in FULL if name in results.recipes]
    best = max((summarize(list(values.values())).mean for values in full), default=math.nan)
    patients: dict[str, dict[str, dict]] = {}
    rows = []
    group = ""
    for row in study.rows:
        group = row.group or group
        found = results.recipes.get(row.recipe)
        if found is None:
            continue
        patients[row.recipe] = {place: found.by_patient(structures, phase) for place, phase, structures in places}
        cells = {place: summarize(list(values.values())) for place, values in patients[row.recipe].items()}
        rows.append(
            ReportRow(
                row=row,
                label=row.label.format(net=net),
                group=group,
                marks=[letter in row.marks for letter, _ in study.columns],
                runs=len(found.runs),
                labels=found.mean_of(RunResults.labels),
                cells=cells,
                seed_deviation=found.seed_deviation(results.structures),
                share=cells[AVERAGE].mean / best if best else math.nan,
                paper=paper_scores(task, row.recipe),
            )
        )
    for filled in rows:
        other = patients.get(filled.row.against or "")
        if other is not None:
            filled.tests = {p: compare(patients[filled.row.recipe][p], other[p]) for p, _, _ in places}
    tested = [(filled, place) for filled in rows for place in filled.tests]
    for averages in (True, False):
        family = [(filled, place) for filled, place in tested if (place == AVERAGE) == averages]
        for (filled, place), p in zip(family, holm([f.tests[place].p for f, place in family]), strict=True):
            filled.corrected[place] = p
    missing = [row.label.format(net=net) for row in study.rows if row.recipe not in results.recipes]
    return ReportTable(name, study, [place for place, _, _ in places], rows, missing)


def number(value: float | None) -> str:
    """A number as the paper prints it: ``.877``."""
    if value is None or math.isnan(value):
        return NOTHING
    text = f"{value:.3f}"
    return text.replace("0.", ".", 1) if text.lstrip("-").startswith("0.") else text


CSV_HEAD = ["row", "recipe", "group", "runs", "labels", "place", "mean", "deviation", "ci_low", "ci_high", "patients"]
CSV_TESTS = ["against", "difference", "p", "p_holm", "paper_mean", "paper_deviation"]


def write_csv(table: ReportTable, path: Path) -> None:
    """Write a table with a line per row and place, in full precision."""
    lines: list[list[object]] = [[*CSV_HEAD, *CSV_TESTS]]
    for row in table.rows:
        for place in table.places:
            cell, test, paper = row.cells[place], row.tests.get(place), row.paper.get(place)
            tested = [row.row.against, test.difference, test.p, row.corrected[place]] if test else [""] * 4
            printed = [paper[0], "" if paper[1] is None else paper[1]] if paper else ["", ""]
            about = [row.label, row.row.recipe, row.group, row.runs, f"{row.labels:g}", place]
            found = [cell.mean, cell.deviation, cell.low, cell.high, cell.patients]
            lines.append([*about, *found, *tested, *printed])
    write_table(path, lines)


def write_latex(table: ReportTable, path: Path) -> None:
    """Write a table for LaTeX, with booktabs, in the paper's layout."""
    marks = [head for _, head in table.study.columns]
    head = ["Row", *map(latex, marks), "Labels", *map(latex, table.places)]
    lines = [
        "% Made by python -m dcl_monai report. Needs \\usepackage{booktabs}.",
        f"% {table.study.title}: mean and standard deviation of Dice over patients, seeds and phases averaged first.",
        "% * significantly better, $\\downarrow$ worse than the row it is tested against (Wilcoxon, Holm, p < 0.05).",
        f"\\begin{{tabular}}{{l{'c' * (len(head) - 1)}}}",
        "\\toprule",
        " & ".join(head) + r" \\",
        "\\midrule",
    ]
    group = ""
    for row in table.rows:
        if row.group != group:
            group = row.group
            lines.append(f"\\multicolumn{{{len(head)}}}{{l}}{{\\emph{{{latex(group)}}}}} \\\\")
        ticks = ["$\\checkmark$" if has else "$\\times$" for has in row.marks]
        cells = []
        for place in table.places:
            cell = row.cells[place]
            mean = number(cell.mean)
            mean = f"\\textbf{{{mean}}}" if round(cell.mean, 3) == table.best(place) else mean
            star = {"*": "$^*$", "": ""}.get(row.star(place), "$^\\downarrow$")
            cells.append(mean + (f"$\\pm${number(cell.deviation)}" if place != AVERAGE else "") + star)
        lines.append(" & ".join([latex(row.label), *ticks, f"{row.labels:g}", *cells]) + r" \\")
    write_atomic(path, "\n".join([*lines, "\\bottomrule", "\\end{tabular}"]) + "\n")


def latex(text: str) -> str:
    """Escape what LaTeX would take for a command."""
    for sign in "\\&%$#_{}":
        text = text.replace(sign, {"\\": r"\textbackslash "}.get(sign, f"\\{sign}"))
    return text.replace("^", r"\^{}")
