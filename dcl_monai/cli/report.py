"""Make the report of a study: one HTML page with tables, statistics and pictures, and the tables as CSV and LaTeX."""

from __future__ import annotations

import argparse
from pathlib import Path

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("out", type=Path, metavar="DIR", help="the --out folder of a study, complete or not")


def run(arguments: argparse.Namespace) -> int:
    """Write the report and say where it is."""
    # drawing takes a while to import, and other commands do without
    from dcl_monai.studies.report import write_report

    page = write_report(arguments.out)
    print(f"report: {page}\ntables as CSV and LaTeX: {arguments.out / 'report'}")
    return 0
