"""The table of test results."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import ignite.distributed as idist
import numpy as np
from ignite.engine import Events
from monai.engines import Evaluator

from dcl_monai.utils.distributed import gather
from dcl_monai.utils.tables import write_table

logger = logging.getLogger(__name__)

NOTED = ("dataset", "subject", "phase", "case")
"""What the CSV file tells of a volume, as far as its item has it."""

WIDTH = 120
"""Letters in a line of the log."""
NOTHING = "\N{EN DASH}"
"""Where no volume shows a structure."""


@dataclass(eq=False)
class DiceTable:
    """
    Log Dice by structure at the end of an evaluation, and write Dice of every volume to a CSV file.

    The log has mean and standard deviation over the volumes that show a structure: a row per data set and per phase,
    where there are several, and a row for all. ``mean`` is over the classes; unions stand behind it and do not enter.
    It is laid out by hand, since ``rich`` would fold the cells of a wide table.

    Attach it to an evaluator with decollated batches that hold ``subject`` and perhaps ``dataset``, ``phase`` and
    ``case``.

    Args:
        classes: names of all classes, background first.
        path: the CSV file.
        metric: name of the evaluator's :class:`~dcl_monai.handlers.PartialMeanDice`.
        unions: the unions of that metric; only their names are used.
        title: what the log calls the table.
    """

    classes: Sequence[str]
    path: str
    metric: str = "test_dice"
    unions: Mapping[str, Sequence[int]] | None = None
    title: str = "test results"
    cases: list[dict[str, str]] = field(default_factory=list, init=False)

    def attach(self, engine: Evaluator) -> None:
        engine.add_event_handler(Events.STARTED, lambda _: self.cases.clear())
        engine.add_event_handler(Events.ITERATION_COMPLETED, self.add)
        engine.add_event_handler(Events.COMPLETED, self)

    def add(self, engine: Evaluator) -> None:
        """Note which volumes were measured."""
        self.cases += [{key: str(item[key]) for key in NOTED if key in item} for item in engine.state.batch]

    def __call__(self, engine: Evaluator) -> None:
        gathered = gather(self.cases)
        counted = [bool(case) for case in gathered]  # but for the bare images of dcl_monai.utils.distributed.shard
        self.cases = [case for case in gathered if case]
        if idist.get_rank() > 0:
            return
        dice = engine.state.metric_details[self.metric].cpu().numpy()[counted]
        text = self.summary(dice)
        logger.info(f"{self.title}, mean ± standard deviation over the volumes that show a structure:\n{text}")
        noted = [key for key in NOTED if any(key in case for case in self.cases)]
        rows = [[*noted, *self.classes[1:], *(self.unions or {})]]
        for case, values in zip(self.cases, dice, strict=True):
            cells = ["" if np.isnan(value) else f"{value:.6f}" for value in values]
            rows.append([*(case.get(key, "") for key in noted), *cells])
        write_table(self.path, rows)

    def summary(self, dice: np.ndarray) -> str:
        """
        The table of the log, by Dice with a row per volume and a column per class, then per union; nan: not shown.
        """
        classes, names = self.classes[1:], [*self.classes[1:], *(self.unions or {})]
        unions = [place for place in range(len(classes), len(names)) if not np.isnan(dice[:, place]).all()]
        rows = [["Dice", "volumes", *classes, "mean", *(names[place] for place in unions)]]
        for name, chosen in self.groups():
            columns = [column[~np.isnan(column)] for column in dice[chosen].T]
            means = [column.mean() for column in columns[: len(classes)] if len(column)]
            cells = [f"{column.mean():.3f} ± {column.std():.3f}" if len(column) else NOTHING for column in columns]
            mean = f"{np.mean(means):.3f}" if means else NOTHING
            shown = [*cells[: len(classes)], mean, *(cells[place] for place in unions)]
            rows.append([name, str(sum(chosen)), *shown])
        return layout(rows)

    def groups(self) -> Iterable[tuple[str, list[bool]]]:
        """Yield the name of every row and which volumes belong to it."""
        for key in ("dataset", "phase"):
            values = [case.get(key, "") for case in self.cases]
            if len(set(values)) > 1:
                for name in sorted(set(values) - {""}):
                    yield name, [value == name for value in values]
        yield "all", [True] * len(self.cases)


def layout(rows: Sequence[Sequence[str]]) -> str:
    """Lay out a table in lines of :data:`WIDTH`; columns that find no room follow below, after a copy of the first."""
    columns = [[f"  {cell:>{max(map(len, column))}}" for cell in column] for column in zip(*rows, strict=True)]
    first = [f"{row[0]:<{len(columns[0][0]) - 2}}" for row in rows]
    blocks = [list(first)]
    for column in columns[1:]:
        if len(blocks[-1][0]) + len(column[0]) > WIDTH and blocks[-1] != first:
            blocks.append(list(first))
        blocks[-1] = [line + cell for line, cell in zip(blocks[-1], column, strict=True)]
    return "\n\n".join("\n".join(block) for block in blocks)
