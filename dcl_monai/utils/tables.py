"""CSV files that a spreadsheet shows as they are meant."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path

from .files import replace_atomic

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""How a cell begins that a spreadsheet takes for a formula."""


def write_table(path: str | Path, rows: Iterable[Iterable[object]]) -> None:
    """
    Write a CSV file in one step, the head first.

    Text that a spreadsheet would take for a formula (a subject called ``=HYPERLINK(...)``) gets a ``'`` in front;
    numbers stay numbers.
    """

    def write(temporary: Path) -> None:
        with temporary.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([quoted(cell) for cell in row] for row in rows)

    replace_atomic(path, write)


def read_table(path: str | Path) -> list[dict[str, str]]:
    """Lines of a file of :func:`write_table`, by the names of its head; none if there is no file."""
    try:
        with Path(path).open(newline="", encoding="utf-8") as file:
            head, *rows = [[unquoted(cell) for cell in row] for row in csv.reader(file)] or [[]]
    except FileNotFoundError:
        return []
    return [dict(zip(head, row, strict=False)) for row in rows]


def quoted(cell: object) -> object:
    """Keep a spreadsheet from calculating a cell."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) and not is_number(cell) else cell


def unquoted(cell: str) -> str:
    """Undo :func:`quoted`."""
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(FORMULA) else cell


def is_number(cell: str) -> bool:
    """Whether a cell is a number, such as ``-0.5``."""
    try:
        float(cell)
    except ValueError:
        return False
    return True
