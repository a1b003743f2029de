"""What several commands ask of their arguments."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dcl_monai.utils import DataError

__all__ = ["SPLIT", "positive", "positive_float", "refuse_existing", "refuse_output"]

SPLIT: dict[str, Any] = {"type": float, "nargs": 3, "metavar": ("A", "B", "C")}
"""The option ``--split``: sizes of training, validation and test, in proportion to each other."""


def positive(text: str) -> int:
    """A whole number from 1, as the type of an option."""
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def positive_float(text: str) -> float:
    """A number above 0, as the type of an option."""
    number = float(text)
    if not 0 < number < 1e6:
        raise ValueError
    return number


def refuse_existing(paths: Iterable[Path | None], force: bool) -> None:
    """Refuse to replace what exists, unless ``force``."""
    for path in filter(None, paths):
        if path.exists() and not force:
            raise DataError(f"{path}: exists already. Choose another name, or replace it with --force.")


def refuse_output(out: Path, beside: Path | None, source: Path, force: bool) -> None:
    """
    Refuse an output that is no JSON file, or that would replace something unasked.

    Args:
        out: the output.
        beside: what is written beside it.
        source: the file that describes the data, which is never replaced.
        force: whether outputs may be replaced.
    """
    if out.suffix.lower() != ".json":
        raise DataError(f"{out}: is written as JSON. Give a name that ends in .json.")
    if out.resolve() == source.resolve():
        raise DataError(f"{out}: is the file that describes the data. Choose another name for the output.")
    refuse_existing((out, beside), force)
