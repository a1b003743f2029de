"""The history of a run: a line per epoch, a table on disk, and the training curves as a picture."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import ignite.distributed as idist
import torch
from ignite.engine import Engine, Events

from dcl_monai.datalist import Datalist
from dcl_monai.engines import LOSS_TERMS, DCLTrainer, first_output
from dcl_monai.utils.distributed import average
from dcl_monai.utils.tables import read_table, write_table
from dcl_monai.visualize import plot_curves

from .time_left import TimeLeft

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class History:
    """
    Collect the mean of each loss term and the metrics of every epoch; log them, and write ``history.csv`` after every
    epoch and ``curves.png`` at the end. A resumed run continues the table that it finds. Several ranks average their
    loss terms, and rank 0 writes. Attach it to the trainer after the handlers that run validations.

    Args:
        output_dir: folder of the two files.
        evaluators: evaluators that run during training; their metrics are taken when they ran in the epoch.
        stage1_epochs: epochs of stage 1: the time left foresees that stage 2 is dearer.
        datalist: the data; with it, the time left includes the test.
    """

    output_dir: str
    evaluators: list[Engine]
    stage1_epochs: int | None = None
    datalist: Datalist | None = None
    rows: list[dict[str, float]] = field(default_factory=list, init=False)
    sums: dict[str, torch.Tensor] = field(default_factory=dict, init=False)
    validated: dict[str, float] = field(default_factory=dict, init=False)
    started: float = field(default_factory=time.monotonic, init=False)

    def __post_init__(self) -> None:
        self.left = TimeLeft(self.stage1_epochs, self.datalist)

    def attach(self, engine: DCLTrainer) -> None:
        engine.add_event_handler(Events.STARTED, self.resume)
        engine.add_event_handler(Events.EPOCH_STARTED, self.start)
        engine.add_event_handler(Events.ITERATION_COMPLETED, self.add)
        engine.add_event_handler(Events.EPOCH_COMPLETED, self.finish)
        engine.add_event_handler(Events.COMPLETED, self.draw)
        for evaluator in self.evaluators:
            evaluator.add_event_handler(Events.COMPLETED, self.validation)
        if self.evaluators:
            self.left.attach(self.evaluators[0])

    def resume(self, engine: DCLTrainer) -> None:
        """Take up the table of a run that is resumed, up to the epoch that it continues from."""
        table = Path(self.output_dir) / "history.csv"
        if engine.state.epoch > 0 and table.exists():
            rows = [{name: float(cell) for name, cell in row.items() if cell} for row in read_table(table)]
            self.rows = [row for row in rows if row["epoch"] <= engine.state.epoch]

    def start(self, engine: DCLTrainer) -> None:
        """Begin an epoch."""
        self.sums, self.validated, self.started = {}, {}, time.monotonic()

    def add(self, engine: DCLTrainer) -> None:
        """Add the terms of an iteration; they stay on the device until the epoch ends."""
        output = first_output(engine.state.output)
        for name in LOSS_TERMS:
            if name in output:
                value = output[name].detach()
                self.sums[name] = self.sums[name] + value if name in self.sums else value.clone()

    def validation(self, engine: Engine) -> None:
        """Note the metrics of an evaluator."""
        self.validated |= {name: float(value) for name, value in engine.state.metrics.items()}

    def finish(self, engine: DCLTrainer) -> None:
        """Close an epoch: log its line and write the table."""
        row: dict[str, float] = {"epoch": float(engine.state.epoch), "stage": 2.0 if engine.dual else 1.0}
        row |= {name: float(average(value)) / engine.state.epoch_length for name, value in self.sums.items()}
        row |= self.validated
        row |= {name: float(value) for name, value in engine.state.metrics.items()}
        row["lr"] = engine.optimizer.param_groups[0]["lr"]
        self.rows.append(row)
        if idist.get_rank() == 0:
            seconds = time.monotonic() - self.started
            left = self.left.after(engine.state.epoch, engine.state.max_epochs, seconds)
            logger.info(f"{self.line(row, engine.state.max_epochs)} | {seconds:.0f} s, about {left / 60:.0f} min left")
            self.write()

    def line(self, row: Mapping[str, float], epochs: int) -> str:
        """The line of an epoch."""
        terms = " ".join(f"{name} {row[name]:.4f}" for name in LOSS_TERMS if name in row)
        metrics = [name for name in row if name.startswith("val_") or name in ("shuffled_dice", "gradient_ratio")]
        measured = " ".join(f"{name.removeprefix('val_dice_')} {row[name]:.3f}" for name in metrics)
        return f"epoch {row['epoch']:.0f}/{epochs} stage {row['stage']:.0f} | {terms}" + (measured and f" | {measured}")

    def write(self) -> None:
        """Write the table."""
        columns = list(dict.fromkeys(name for row in self.rows for name in row))
        rows = [[row.get(name, "") for name in columns] for row in self.rows]
        write_table(f"{self.output_dir}/history.csv", [columns, *rows])

    def draw(self, engine: DCLTrainer) -> None:
        """Draw the curves."""
        if idist.get_rank() == 0:
            plot_curves(self.rows, LOSS_TERMS, f"{self.output_dir}/curves.png")
