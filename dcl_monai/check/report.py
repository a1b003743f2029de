"""The report of a check: one HTML page with everything in it, and a short form on the terminal."""

from __future__ import annotations

from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.panel import Panel
from rich.table import Column, Table
from rich.text import Text

from dcl_monai.datalist.splits import SPLITS
from dcl_monai.utils import DataError
from dcl_monai.utils.files import write_atomic
from dcl_monai.utils.page import render_page

from .gallery import draw_examples
from .matrix import draw_states
from .page import PAGE
from .summary import Summary

SHOWN = 3
"""So many problems of a kind are shown at once; the page has the others folded away."""
COLOURS = {"error": "red", "warning": "yellow"}


def write_report(summary: Summary, path: str | Path) -> None:
    """Write the report as one HTML file, pictures included."""
    parts = [(d, s) for d, records in summary.datasets.items() for s in SPLITS if any(r.split == s for r in records)]
    text = render_page(
        PAGE,
        summary=summary,
        shown=SHOWN,
        states=[state.value for state in summary.used],
        by_part=[(dataset, split, summary.states(dataset, split)) for dataset, split in parts],
        matrix=draw_states(summary) if summary.records else "",
        gallery=draw_examples(summary),
    )
    try:
        write_atomic(path, text)
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error.strerror}). Choose another place with --html.") from error


def print_report(summary: Summary, console: Console | None = None) -> None:
    """Print verdict, problems and numbers."""
    console = console or Console()
    severity = "error" if summary.errors else "warning" if summary.problems else ""
    verdict = Text(summary.verdict, style=f"bold {COLOURS.get(severity, 'green')}")
    console.print(Panel(Text("\n").join([verdict, Text(summary.facts), Text(f"datalist hash {summary.hash[:12]}")])))
    for severity, colour in COLOURS.items():
        for kind, messages in summary.of(severity).items():
            for message in messages[:SHOWN]:
                line = Text.assemble((f"{severity}: {kind}. ", f"bold {colour}"), message)
                console.print(line, soft_wrap=True)  # names of files stay in one piece
            if len(messages) > SHOWN:
                console.print(f"  ... and {len(messages) - SHOWN} more of this kind", style=colour)
    states = [state.value for state in summary.used]
    _print_table(console, "images and subjects", ["data set", *SPLITS], summary.numbers())
    _print_table(console, "geometry", ["data set", "voxel size (mm)", "image size", "orientation"], summary.sizes())
    _print_table(
        console, "what is known of classes", ["class", "training subjects", "known voxels", *states], summary.totals()
    )
    for name, others in summary.never_together():
        console.print(Text(f"{name} is never annotated together with {' or '.join(others)}"), soft_wrap=True)


def _print_table(console: Console, title: str, head: list[str], rows: list[list[str]]) -> None:
    table = Table(*(Column(name, overflow="fold") for name in head), title=title, title_justify="left", box=SIMPLE_HEAD)
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(table)
