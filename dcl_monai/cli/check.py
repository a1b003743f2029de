"""Look at every file of a datalist: print what is wrong and what is there, and write a report with pictures."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from dcl_monai.check import find_problems, inspect_datalist, repair_headers
from dcl_monai.datalist import load_datalist

from .arguments import add_file, add_workers, say_view


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_file(parser)
    parser.add_argument("--html", type=Path, help="file of the report (default: <file>_report.html beside the file)")
    parser.add_argument(
        "--repair",
        type=Path,
        metavar="OUT",
        help="write copies of labels with a wrong header, and a datalist that uses them, to this new folder",
    )
    add_workers(parser)


def run(arguments: argparse.Namespace) -> int:
    """Look at every file, and return 1 if there are errors, 0 if there are none or warnings only."""
    # drawing takes a while to import, and other commands do without
    from dcl_monai.check.report import print_report, write_report
    from dcl_monai.check.summary import Summary

    datalist = load_datalist(arguments.file)
    if arguments.repair is not None:
        changes, left = repair_headers(datalist, arguments.repair)
        for label in left:
            print(f"{label}: its axes differ from those of its image; not changed, because either header may be right")
        for label, _, change in changes:
            print(f"{label}: {change}")
        print(f"{len(changes)} label(s) repaired" + (f", listed in {arguments.repair / 'changes.csv'}" * bool(changes)))
        if changes:
            print(f"next: python -m dcl_monai check {shlex.quote(str(arguments.repair / 'datalist.json'))}")
        return 1 if left else 0
    records = inspect_datalist(datalist, arguments.workers)
    summary = Summary(str(arguments.file), datalist, records, find_problems(datalist, records))
    html = arguments.html or arguments.file.with_name(f"{arguments.file.stem}_report.html")
    write_report(summary, html)
    print_report(summary)
    print(f"report with pictures: {html}")
    say_view(arguments.file)
    return 1 if summary.errors else 0
