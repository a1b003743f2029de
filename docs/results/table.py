"""Print the table of docs/research/acdc_30_epochs.md from the numbers of every patient.

    python docs/results/table.py docs/results/acdc_longer.csv [--default dcl]

A column of the file is a row of the study and a seed. A row is compared with the default of the seeds that both have,
on the patients that it has; "of all labels" is the ratio of the means on these patients.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np

from dcl_monai.studies.statistics import bootstrap_interval, compare, holm, summarize

Seeds = dict[int, dict[str, float]]

FULL = "unet_f"
FAMILY = ("unet_p", "nnunet_ignore", "mmee", "unet_f_sixth")  # rows of Holm's correction


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--default", default="dcl", metavar="ROW")
    arguments = parser.parse_args()
    rows, folds = read(arguments.file)
    default, full = rows[arguments.default], mean(rows[FULL])
    scores = {row: mean(seeds) for row, seeds in rows.items()}
    baselines = {row: mean({k: v for k, v in default.items() if k in seeds}) for row, seeds in rows.items()}
    tests = {row: compare(scores[row], baselines[row]) for row in rows if row != arguments.default and baselines[row]}
    tested = [row for row in FAMILY if row in tests]
    corrected = dict(zip(tested, holm([tests[row].p for row in tested]), strict=True))
    print("| row | seeds | patients | Dice | 95% interval | of all labels | by fold | difference to the default "
          "(95% interval) | the default is better in | p | p (Holm) |\n" + "|---" * 11 + "|")  # fmt: skip
    for row, score in scores.items():
        means = summarize([score[patient] for patient in sorted(score)])
        ratio = means.mean / np.mean([full[patient] for patient in score])
        by_fold = [np.mean([v for p, v in score.items() if folds[p] == f]) for f in sorted({folds[p] for p in score})]
        cells = [f"`{row}`", ", ".join(map(str, rows[row])), str(len(score)), short(means.mean)]
        cells += [f"{short(means.low)} to {short(means.high)}", short(ratio), ", ".join(map(short, by_fold))]
        if row in tests:
            differences = [score[patient] - baselines[row][patient] for patient in sorted(score)]
            low, high = map(short, bootstrap_interval(differences))
            cells += [f"{short(tests[row].difference)} ({low} to {high})"]
            cells += [f"{sum(d < 0 for d in differences)} of {len(differences)}", f"{tests[row].p:.2g}"]
            cells += [f"{corrected[row]:.2g}" if row in corrected else ""]
        print(f"| {' | '.join(cells + [''] * (11 - len(cells)))} |")


def read(path: Path) -> tuple[dict[str, Seeds], dict[str, str]]:
    """Read row -> seed -> patient -> Dice, and the fold that tests each patient."""
    rows: dict[str, Seeds] = {}
    folds = {}
    with path.open(newline="", encoding="utf-8") as file:
        for line in csv.DictReader(file):
            folds[line["patient"]] = line["fold"]
            for column, value in line.items():
                row, found, seed = column.partition(" seed ")
                if found and value:
                    rows.setdefault(row, {}).setdefault(int(seed), {})[line["patient"]] = float(value)
    return rows, folds


def mean(seeds: Seeds) -> dict[str, float]:
    """Average the seeds of each patient."""
    patients = {patient for scores in seeds.values() for patient in scores}
    return {p: float(np.mean([scores[p] for scores in seeds.values() if p in scores])) for p in sorted(patients)}


def short(value: float) -> str:
    """Write a number of at most 1 as the tables do."""
    return f"{value:.3f}".replace("0.", ".", 1)


if __name__ == "__main__":
    main()
