"""Write the Dice of every patient of a study as a table for `table.py`: a column for each row and seed.

    python docs/results/patients.py studies/A docs/results/acdc_ladder.csv

Structures and phases of a patient are averaged. Conditional rows have further columns: Dice with shuffled conditions,
and with conditions of the wrong class. Columns that the file has already, of a study on another machine, stay.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections import defaultdict
from pathlib import Path

import numpy as np

TABLES = {"": "test_dice.csv", " shuffled": "test_dice_shuffled.csv", " wrong class": "test_dice_wrong_class.csv"}
NO_STRUCTURE = ("dataset", "subject", "phase", "case", "whole heart")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", type=Path)
    parser.add_argument("file", type=Path)
    arguments = parser.parse_args()
    patients: dict[str, dict[str, str]] = defaultdict(dict)
    if arguments.file.is_file():
        with arguments.file.open(newline="", encoding="utf-8") as file:
            patients |= {row["patient"]: row for row in csv.DictReader(file)}
    for run in sorted(arguments.study.glob("runs/*/seed*")):
        if not (run / "overlays.png").is_file():
            continue  # the last thing that a training writes
        fold = json.loads((run / "training.json").read_text(encoding="utf-8"))["fold"]
        for name, table in TABLES.items():
            if (run / table).is_file():
                for patient, dice in read(run / table).items():
                    column = f"{run.parent.name}{name} seed {run.name.removeprefix('seed')}"
                    patients[patient] |= {"patient": patient, "fold": fold, column: f"{dice:.6f}"}
    first, second, *others = dict.fromkeys(column for row in patients.values() for column in row)
    columns = [first, second, *sorted(others)]
    with arguments.file.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(patients[patient] for patient in sorted(patients))


def read(path: Path) -> dict[str, float]:
    """Read the mean Dice of every patient."""
    scores = defaultdict(list)
    with path.open(newline="", encoding="utf-8") as file:
        for line in csv.DictReader(file):
            scores[line["subject"]] += [float(v) for k, v in line.items() if v and k not in NO_STRUCTURE]
    return {patient: float(np.mean(values)) for patient, values in scores.items()}


if __name__ == "__main__":
    main()
