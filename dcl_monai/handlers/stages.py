"""The two stages of Algorithm 1 as handlers."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from ignite.engine import Engine, EventEnum, Events
from torch import nn

from dcl_monai.engines import DCLTrainer
from dcl_monai.utils import DataError
from dcl_monai.utils.distributed import on_first_rank

from .at_event import AtEvent
from .breakdown import non_finite

logger = logging.getLogger(__name__)


class DCLEvents(EventEnum):
    """Events beside ignite's own."""

    NEW_BEST = "new_best"
    """Fired on an evaluator by :class:`BestModel`, when a validation was the best so far."""


@dataclass(eq=False)
class BestModel:
    """
    Keep the weights of the best validation so far, and fire :attr:`DCLEvents.NEW_BEST` on the evaluator.

    Rank 0 decides for all ranks, whose devices may round differently. MONAI's ``CheckpointSaver`` keeps files, and
    tells nobody which is the best.

    Args:
        network: network whose weights are kept, in memory.
        key_metric: name of the evaluator's metric; larger is better.
    """

    network: nn.Module
    key_metric: str = "val_dice"
    score: float = field(default=-1.0, init=False)
    epoch: int = field(default=0, init=False)
    weights: dict[str, torch.Tensor] = field(default_factory=dict, init=False)

    def attach(self, engine: Engine) -> None:
        engine.register_events(*DCLEvents)
        engine.add_event_handler(Events.EPOCH_COMPLETED, self)

    def __call__(self, engine: Engine) -> None:
        score = on_first_rank(float)(engine.state.metrics[self.key_metric])
        if score > self.score:
            weights = {name: value.detach().cpu().clone() for name, value in self.network.state_dict().items()}
            broken = non_finite(weights)
            if broken is not None:
                raise DataError(
                    f"training broke down: {broken} is not finite. Lower --learning_rate. The best model "
                    "so far is kept."
                )
            self.score, self.epoch, self.weights = score, engine.state.epoch, weights
            engine.fire_event(DCLEvents.NEW_BEST)

    def load_into(self, *networks: nn.Module) -> None:
        """Copy the best weights into networks of the same form; refuse if no validation has run yet."""
        if not self.weights:
            raise DataError("no validation has run, so there is no best model: choose a smaller --val_interval.")
        for network in networks:
            network.load_state_dict(self.weights)
        logger.info(f"best validation so far: {self.key_metric} {self.score:.4f} at epoch {self.epoch}.")

    def state_dict(self) -> dict[str, Any]:
        """Return what a resumed run needs."""
        return {"score": self.score, "epoch": self.epoch, "weights": self.weights}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up the state of an earlier run."""
        self.score, self.epoch, self.weights = state["score"], state["epoch"], state["weights"]


@dataclass(eq=False)
class StageSwitch(AtEvent):
    """
    Begin stage 2: both networks start from stage 1's best, the optimizer forgets stage 1, and the dual loop is on.

    The learning rate of either stage is set by :class:`dcl_monai.engines.TwoStageLR`.

    Args:
        best: keeper of the best weights of PrimNet.
        stage1_epochs: epochs of stage 1.
    """

    best: BestModel
    stage1_epochs: int
    event = Events.EPOCH_STARTED

    def __call__(self, engine: DCLTrainer) -> None:
        engine.dual = engine.state.epoch > self.stage1_epochs and engine.dual_network is not None
        if engine.dual_network is not None and engine.state.epoch == self.stage1_epochs + 1:
            self.best.load_into(self.best.network, engine.dual_network)
            engine.optimizer.state = defaultdict(dict)
            logger.info("stage 2: the dual loop is on, both networks start from stage 1's best.")


@dataclass(eq=False)
class DualWeightSync(AtEvent):
    """
    Copy PrimNet, buffers included, into DualNet at every new best validation.

    Attach it to the evaluator, after a :class:`BestModel`.

    Args:
        network: PrimNet.
        dual_network: DualNet; with ``None`` there is nothing to do.
    """

    network: nn.Module
    dual_network: nn.Module | None
    event = DCLEvents.NEW_BEST

    def __call__(self, engine: Engine) -> None:
        if self.dual_network is not None:
            self.dual_network.load_state_dict(unwrapped(self.network).state_dict())


@dataclass(eq=False)
class DualWeightAverage(AtEvent):
    """
    Let DualNet follow PrimNet as a slow average of it in stage 2 (a mean teacher), instead of being its best state.

    Attach it after :class:`StageSwitch`. Statistics of batch norm are averaged with the weights they belong to.

    It is not :py:class:`ignite.handlers.EMAHandler`: that one averages into a copy of its own, from the first iteration
    on. DualNet belongs to the trainer, starts anew from stage 1's best and is part of the checkpoint.

    Args:
        network: PrimNet.
        dual_network: DualNet.
        decay: part of the average that stays, at every iteration.

    Raises:
        ValueError: when the decay is not within 0 and 1.
    """

    network: nn.Module
    dual_network: nn.Module | None
    decay: float = 0.99
    event = Events.ITERATION_COMPLETED

    def __post_init__(self) -> None:
        if not 0.0 <= self.decay <= 1.0:
            raise ValueError(f"the decay of DualNet must be between 0 and 1, got {self.decay}.")

    @torch.no_grad()
    def __call__(self, engine: DCLTrainer) -> None:
        if not engine.dual or self.dual_network is None:
            return
        averages, current = self.dual_network.state_dict(), unwrapped(self.network).state_dict()
        floating = [name for name, value in current.items() if value.is_floating_point()]
        # one kernel for all tensors of a device, not one for each
        torch._foreach_lerp_([averages[k] for k in floating], [current[k] for k in floating], 1.0 - self.decay)
        for name in current.keys() - set(floating):  # batch norm counts its batches
            averages[name].copy_(current[name])


def unwrapped(network: nn.Module) -> nn.Module:
    """Return the network inside a DistributedDataParallel, and inside what ``torch.compile`` made of it."""
    network = getattr(network, "_orig_mod", network)
    return network.module if isinstance(network, nn.parallel.DistributedDataParallel) else network
