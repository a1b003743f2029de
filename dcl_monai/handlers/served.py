"""Training a model where it is served."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ignite.engine import Events
from monai.engines import Trainer
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from dcl_monai.networks import save_model
from dcl_monai.utils import DataError
from dcl_monai.utils.files import copy_atomic

from .breakdown import non_finite
from .training import NetworkHandler

__all__ = ["FreezeStatistics", "UpdateServedModel"]

logger = logging.getLogger(__name__)


class FreezeStatistics(NetworkHandler):
    """
    Normalise by the running statistics that batch norm has, and leave them as they are, while the weights are trained.

    The few images of a training on the server look otherwise, as a whole, than those the model was trained with: their
    statistics would move every layer, and harm structures that nobody drew.

    Args:
        network: PrimNet.
    """

    event = Events.STARTED

    def __call__(self, engine: Trainer) -> None:
        def freeze(module: nn.Module, _: tuple[Any, ...]) -> None:
            module.eval()  # before every pass, since the trainer puts the whole network into training mode

        for module in self.network.modules():
            if isinstance(module, _BatchNorm):
                module.register_forward_pre_hook(freeze)


class UpdateServedModel:
    """
    Put the trained network in the place of the model that is served, once training is complete, in one step.

    The model before stays in the folder ``previous`` beside it, under the time at which it was replaced: copy it back,
    and the server takes it up at the next request.

    Args:
        network: the network as it is served: with its conditional bank.
        path: the model file.
        settings: settings of the model, which stay as they are.
    """

    def __init__(self, network: nn.Module, path: str | Path, settings: Mapping[str, Any]) -> None:
        self.network = network
        self.path = Path(path)
        self.settings = dict(settings)

    def attach(self, engine: Trainer) -> None:
        """
        Args:
            engine: the trainer.
        """
        engine.add_event_handler(Events.COMPLETED, self)

    def __call__(self, engine: Trainer) -> None:
        state = self.network.state_dict()
        broken = non_finite(state)
        if broken is not None:
            raise DataError(f"{self.path}: training broke down ({broken} is not finite). The model stays as it was.")
        now = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%S_%fZ")
        previous = self.path.parent / "previous" / f"{now}{self.path.suffix}"
        copy_atomic(self.path, previous)
        save_model(state, self.settings, self.path)
        logger.info(f"{self.path} is updated after {engine.state.epoch} epoch(s); the model before is {previous}.")
