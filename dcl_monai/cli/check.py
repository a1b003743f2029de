"""Look at every file of a datalist: print what is wrong and what is there, and write a report with pictures."""

from __future__ import annotations

import argparse
import os
import shlex
from pathlib import Path

from dcl_monai.check import find_problems, inspect_datalist
from dcl_monai.datalist import load_datalist

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("file", type=Path, help="YAML or JSON file that describes the data")
    parser.add_argument("--html", type=Path, help="file of the report (default: <file>_report.html beside the file)")
    parser.add_argument(
        "--workers", type=_positive, default=os.cpu_count() or 1, help="processes that read (default: all cores)"
    )


def run(arguments: argparse.Namespace) -> int:
    """
    Run the command.

    Returns:
        1 if there are errors, 0 if there are none or warnings only.
    """
    # drawing takes a while to import, and other commands do without
    from dcl_monai.check.report import print_report, write_report
    from dcl_monai.check.summary import Summary

    datalist = load_datalist(arguments.file)
    records = inspect_datalist(datalist, arguments.workers)
    summary = Summary(str(arguments.file), datalist, records, find_problems(datalist, records))
    html = arguments.html or arguments.file.with_name(f"{arguments.file.stem}_report.html")
    write_report(summary, html)
    print_report(summary)
    print(f"report with pictures: {html}")
    print(f"see the labels slice by slice: python -m dcl_monai view {shlex.quote(str(arguments.file))}")
    return 1 if summary.errors else 0


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number
