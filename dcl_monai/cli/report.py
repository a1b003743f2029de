"""Make the report of a study: one HTML page with tables, statistics and pictures, and the tables as CSV and LaTeX."""

from __future__ import annotations

import argparse
from pathlib import Path

from dcl_monai.utils import DataError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "studies",
        type=Path,
        nargs="+",
        metavar="DIR",
        help="the --out folder of a study, complete or not; of several, if they differ only in --split_seed or --fold",
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="where to write (needed for several; default: DIR)")


def run(arguments: argparse.Namespace) -> int:
    """Write the report and say where it is."""
    # drawing takes a while to import, and other commands do without
    from dcl_monai.studies.report import write_report

    if len(arguments.studies) > 1 and arguments.out is None:
        raise DataError("Give --out DIR: a report of several studies needs a folder of its own.")
    page = write_report(*arguments.studies, out=arguments.out)
    print(f"report: {page}\ntables as CSV and LaTeX: {page.parent / 'report'}")
    return 0
