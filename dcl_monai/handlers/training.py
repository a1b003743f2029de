"""Small handlers of the training loop."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import ignite.distributed as idist
import numpy as np
import torch
from ignite.engine import Engine, Events
from ignite.utils import manual_seed
from monai.engines import Evaluator, SupervisedTrainer, Trainer
from monai.handlers import ValidationHandler
from torch import nn
from torch.nn.utils import clip_grad_norm_

from dcl_monai.data import ConditionalDataset
from dcl_monai.losses import set_progress
from dcl_monai.networks import DCLNet, save_model
from dcl_monai.utils import DataError
from dcl_monai.utils.distributed import PATIENCE, average, set_rank_timeout

from .at_event import AtEvent
from .stages import DCLEvents


@dataclass(eq=False)
class EpochSeed(AtEvent):
    """
    Seed every random generator again at the start of each epoch from ``(seed, epoch, rank)``.

    A resumed run thus needs no saved random state to go on exactly as the uninterrupted one.

    Args:
        seed: seed of the run.
        dataset: training set, whose draws follow the epoch.
    """

    seed: int
    dataset: ConditionalDataset
    event = Events.EPOCH_STARTED

    def __call__(self, engine: Trainer) -> None:
        rank = idist.get_rank()
        # seeds alone: what a user has set of cuDNN stays as it is
        manual_seed(int(np.random.SeedSequence((self.seed, engine.state.epoch, rank)).generate_state(1)[0]))
        self.dataset.set_epoch(engine.state.epoch)


@dataclass(eq=False)
class LossProgress(AtEvent):
    """
    Tell the scheduled parts of a loss how far training has come.

    Args:
        loss: the loss; with ``None`` there is nothing to do.
        epochs: epochs over which progress goes from 0 to 1: stage 1 as a rule, stage 2 for the filling.
        start: epochs before.
    """

    loss: nn.Module | None
    epochs: int
    start: int = 0
    event = Events.ITERATION_STARTED

    def __call__(self, engine: Trainer) -> None:
        if self.loss is not None:
            past = (engine.state.iteration - 1) / engine.state.epoch_length - self.start
            set_progress(self.loss, min(max(past / self.epochs, 0.0), 1.0) if self.epochs else 1.0)


@dataclass(eq=False)
class AverageBuffers(AtEvent):
    """
    Average the running statistics of batch norm over the ranks, after every epoch.

    Each rank sees its own batches only. Attach it before the handlers that validate, so that all ranks validate, keep
    and save one and the same network.

    Args:
        network: PrimNet.
    """

    network: nn.Module
    event = Events.EPOCH_COMPLETED

    def __call__(self, engine: Trainer) -> None:
        for buffer in self.network.buffers():
            if buffer.is_floating_point():
                buffer.copy_(average(buffer))


class RankTimeout:
    """
    Let ranks wait for each other only so long while they train.

    A rank that hangs then ends the run, which goes on from its checkpoint (``torchrun --max_restarts``, ``--resume
    true``). Before and after training ranks wait longer (:data:`~dcl_monai.utils.distributed.PATIENCE`): reading the
    data and testing large volumes take some longer than others.

    Args:
        seconds: longer than the longest validation of one rank may last beyond that of another.
    """

    def __init__(self, seconds: float) -> None:
        if not (isinstance(seconds, (int, float)) and 0 < seconds <= PATIENCE.total_seconds()):
            raise DataError(
                f"--rank_timeout is {seconds!r}, but it must be a number of seconds, at most "
                f"{PATIENCE.total_seconds():.0f}. Set another value."
            )
        self.seconds = seconds

    def attach(self, engine: Trainer) -> None:
        engine.add_event_handler(Events.STARTED, lambda _: set_rank_timeout(timedelta(seconds=self.seconds)))
        engine.add_event_handler(Events.COMPLETED, lambda _: set_rank_timeout(PATIENCE))
        engine.add_event_handler(Events.EXCEPTION_RAISED, self)

    def __call__(self, engine: Trainer, error: BaseException) -> None:
        if isinstance(error, RuntimeError) and re.search("timed? ?out", str(error), re.IGNORECASE):
            raise DataError(
                f"another rank did not answer within {self.seconds:g} s in epoch {engine.state.epoch}: it hangs or has "
                "ended. Start again with --resume true; if it was only slow, with a larger --rank_timeout."
            ) from error
        raise error


@dataclass(eq=False)
class ClipGradients:
    """
    Clip the norm of the gradient before every optimizer step, after AMP has unscaled it and the ranks have averaged it.

    Args:
        max_norm: the largest norm; with ``None`` nothing is clipped.
    """

    max_norm: float | None

    def attach(self, engine: SupervisedTrainer) -> None:
        if self.max_norm is not None:
            engine.add_event_handler(Events.STARTED, lambda _: engine.optimizer.register_step_pre_hook(self))

    def __call__(self, optimizer: torch.optim.Optimizer, *args: object) -> None:
        assert self.max_norm is not None
        clip_grad_norm_([p for group in optimizer.param_groups for p in group["params"]], self.max_norm)


class StageValidation(ValidationHandler):
    """
    Validate every ``interval`` epochs, and always after the last epoch of either stage.

    Stage 2 starts from the best validated weights of stage 1: an epoch that nobody validates would be lost.

    Args:
        validator: the evaluator.
        interval: epochs between two validations.
        stage1_epochs: epochs of stage 1.
    """

    def __init__(self, validator: Evaluator, interval: int, stage1_epochs: int) -> None:
        super().__init__(interval=interval, validator=validator)
        self.stage1_epochs = stage1_epochs

    def attach(self, engine: Engine) -> None:
        engine.add_event_handler(Events.EPOCH_COMPLETED(event_filter=self.is_due), self)

    def is_due(self, engine: Engine, epoch: int) -> bool:
        """Whether to validate after an epoch."""
        return epoch % self.interval == 0 or epoch in (self.stage1_epochs, engine.state.max_epochs)


@dataclass(eq=False)
class SaveNetwork(AtEvent):
    """
    Write a network's weights at every new best validation, in one step.

    Attach it to the evaluator, after a :class:`~dcl_monai.handlers.BestModel`.

    Args:
        network: the network with its conditional bank; the heads of deep supervision stay behind.
        path: the file.
        settings: what inference needs to know, written with the weights; see :func:`dcl_monai.networks.load_model`.
    """

    network: DCLNet
    path: str
    settings: dict[str, Any] = field(default_factory=dict)
    event = DCLEvents.NEW_BEST

    def __call__(self, engine: Engine) -> None:
        if idist.get_rank() == 0:
            save_model(self.network.served_state(), self.settings, self.path)
