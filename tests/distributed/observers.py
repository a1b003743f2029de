"""Handlers that the tests of the bundle add to a run, to see what its ranks do."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import ignite.distributed as idist
import torch
from ignite.engine import Events
from monai.engines import Trainer

__all__ = ["CrashOnce", "HangOnce", "Witness"]


class Witness:
    """Write what a rank has at the end of the training, to `rank<rank>.pt`."""

    def __init__(self, folder: str, loader: torch.utils.data.DataLoader, **states: Any) -> None:
        self.path = Path(folder) / f"rank{idist.get_rank()}.pt"
        self.loader = loader
        self.states = states
        self.seen: list[list[int]] = []

    def attach(self, engine: Trainer) -> None:
        engine.add_event_handler(Events.EPOCH_STARTED, lambda _: self.seen.append(list(self.loader.sampler)))
        engine.add_event_handler(Events.COMPLETED, self)

    def __call__(self, engine: Trainer) -> None:
        states = {name: value.state_dict() for name, value in self.states.items()}
        torch.save(states | {"seen": self.seen, "metrics": engine.state.metrics}, self.path)


class CrashOnce:
    """End a rank without a word in the middle of an epoch, unless it happened before."""

    def __init__(self, folder: str, rank: int, iteration: int) -> None:
        self.marker = Path(folder) / "happened"
        self.rank = rank
        self.iteration = iteration

    def attach(self, engine: Trainer) -> None:
        engine.add_event_handler(Events.ITERATION_COMPLETED(once=self.iteration), self)

    def __call__(self, engine: Trainer) -> None:
        if idist.get_rank() == self.rank and not self.marker.exists():
            self.marker.touch()
            os._exit(1)


class HangOnce(CrashOnce):
    """Stop a rank in the middle of an epoch, as a driver or a disk may: it neither ends nor answers."""

    def __call__(self, engine: Trainer) -> None:
        if idist.get_rank() == self.rank and not self.marker.exists():
            self.marker.touch()
            os.kill(os.getpid(), signal.SIGSTOP)
