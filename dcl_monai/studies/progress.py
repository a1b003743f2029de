"""The live table of a study."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.live import Live
from rich.table import Table

from .runs import Run, last_line

STYLES = {"complete": "green", "failed": "bold red", "running": "bold", "stopped": "yellow"}


@dataclass
class Display:
    """Show the runs of a study while they go on: a table on a terminal, a line per change anywhere else."""

    runs: Sequence[Run]
    jobs: int = 1  # how many go on at a time
    console: Console = field(default_factory=Console)  # where to show them
    # what has become of each, by folder; default: those that are not complete wait
    status: dict[Path, str] = field(default_factory=dict)
    started: dict[Path, tuple[float, int]] = field(default_factory=dict, init=False)
    shown: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self.live = Live(console=self.console, auto_refresh=False) if self.console.is_terminal else None
        waiting = {run.folder: "complete" if run.is_complete() else "waiting" for run in self.runs}
        self.status = self.status or waiting

    def __enter__(self) -> Display:
        if self.live is not None:
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.shown = 0.0
        self.update()
        if self.live is not None:
            self.live.stop()

    def told(self, run: Run, status: str) -> None:
        """Take note of what happened to a run."""
        self.status[run.folder] = status
        if status == "running":
            self.started[run.folder] = (time.monotonic(), run.epochs_done())
        if self.live is None:
            done = sum(status == "complete" for status in self.status.values())
            self.console.print(
                f"{time.strftime('%H:%M:%S')} {run.name}: {status} ({done} of {len(self.runs)} complete)"
            )

    def update(self) -> None:
        """Draw the table, once a second at most."""
        if self.live is not None and time.monotonic() - self.shown > 1.0:
            self.shown = time.monotonic()
            self.live.update(self.table(), refresh=True)

    def table(self) -> Table:
        """The table as it is now."""
        left = self.seconds_left()
        title = f"about {duration(left)} left" if left is not None else None
        table = Table("run", "seed", "status", "epochs", "val Dice", "left", box=SIMPLE_HEAD, title=title)
        for run in self.runs:
            status = self.status[run.folder]
            seconds = self.run_seconds_left(run) if status == "running" else None
            table.add_row(
                run.recipe,
                str(run.seed),
                f"[{STYLES.get(status, 'dim')}]{status}[/]",
                f"{run.epochs_done()}/{run.epochs}",
                last_line(run.folder / "history.csv").get("val_dice", "")[:5],
                "" if seconds is None else duration(seconds),
            )
        return table

    def seconds_per_epoch(self, run: Run) -> float | None:
        """How long an epoch of a run takes, if that is known by now."""
        if run.folder not in self.started:
            return None
        began, before = self.started[run.folder]
        epochs = run.epochs_done() - before
        return (time.monotonic() - began) / epochs if epochs > 0 else None

    def run_seconds_left(self, run: Run) -> float | None:
        """How long a run will go on."""
        speed = self.seconds_per_epoch(run)
        return None if speed is None else speed * (run.epochs - run.epochs_done())

    def seconds_left(self) -> float | None:
        """How long all of them will take; runs that have not started count as the average of those that have."""
        open_runs = [run for run in self.runs if self.status[run.folder] in ("running", "waiting")]
        speeds = [
            speed
            for run in open_runs
            if self.status[run.folder] == "running" and (speed := self.seconds_per_epoch(run))
        ]
        if not speeds:
            return None
        mean = sum(speeds) / len(speeds)
        epochs = sum(run.epochs - run.epochs_done() for run in open_runs)
        return mean * epochs / min(self.jobs, len(open_runs))


def duration(seconds: float) -> str:
    """Hours and minutes."""
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60:02d} min" if minutes >= 60 else f"{minutes} min" if minutes else "1 min"
