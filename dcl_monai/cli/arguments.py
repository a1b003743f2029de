"""What several commands ask of their arguments."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dcl_monai.utils import DataError

SPLIT: dict[str, Any] = {"type": float, "nargs": 3, "metavar": ("A", "B", "C")}
"""The option ``--split``: sizes of training, validation and test, in proportion to each other."""


def positive(text: str) -> int:
    """A whole number from 1, as the type of an option."""
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def gigabytes(text: str) -> float:
    """A number above 0, as the type of an option."""
    number = float(text)
    if not 0 < number < 1e6:
        raise ValueError
    return number


def add_file(parser: argparse.ArgumentParser) -> None:
    """Add the file of the data."""
    parser.add_argument("file", type=Path, help="YAML or JSON file that describes the data")


def add_workers(parser: argparse.ArgumentParser) -> None:
    """Add the number of processes that read the data."""
    parser.add_argument(
        "--workers", type=positive, default=os.cpu_count() or 1, help="processes that read (default: all cores)"
    )


def add_planning(parser: argparse.ArgumentParser) -> None:
    """Add what a network is planned for."""
    parser.add_argument(
        "--memory", type=gigabytes, default=8.0, metavar="GB", help="memory of the device that trains (default: 8)"
    )
    parser.add_argument(
        "--device",
        choices=["cpu", "cuda"],
        help="what will train; CUDA trains in mixed precision and needs less (default: CUDA if this machine has it)",
    )
    parser.add_argument(
        "--dims", type=int, choices=[2, 3], help="2: slices, 3: volumes (default: slices if they are thick and few)"
    )
    parser.add_argument(
        "--modality",
        choices=["ct", "mr"],
        help="ct: intensities by the data set; mr: by the image (default: ct if every image has values of air)",
    )


def say_view(path: Path) -> None:
    """Say how to look at a result."""
    print(f"see them slice by slice: python -m dcl_monai view {shlex.quote(str(path))}")


def refuse_existing(paths: Iterable[Path | None], force: bool) -> None:
    """Refuse to replace what exists, unless ``force``."""
    for path in filter(None, paths):
        if path.exists() and not force:
            raise DataError(f"{path}: exists already. Choose another name, or replace it with --force.")


def refuse_output(out: Path, beside: Path | None, source: Path, force: bool) -> None:
    """
    Refuse an output that is no JSON file, or that would, like the file ``beside`` it, replace something unasked.

    The file that describes the data, ``source``, is never replaced.
    """
    if out.suffix.lower() != ".json":
        raise DataError(f"{out}: is written as JSON. Give a name that ends in .json.")
    if out.resolve() == source.resolve():
        raise DataError(f"{out}: is the file that describes the data. Choose another name for the output.")
    refuse_existing((out, beside), force)
