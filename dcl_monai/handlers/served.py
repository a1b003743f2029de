"""Training a model where it is served."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch
from ignite.engine import Events
from monai.engines import Evaluator, Trainer
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from dcl_monai.candidates import expand
from dcl_monai.conditions import BankDataset
from dcl_monai.metrics import PartialDiceMetric
from dcl_monai.networks import load_model, save_model
from dcl_monai.utils import DataError
from dcl_monai.utils.files import copy_atomic, write_atomic

from .at_event import AtEvent
from .breakdown import non_finite

logger = logging.getLogger(__name__)
CANDIDATES = "candidates"
"""Folder of models that wait for a person, beside the served one."""


@dataclass(eq=False)
class FreezeStatistics(AtEvent):
    """
    Normalise by the running statistics that batch norm has, and leave them as they are, while the weights are trained.

    The few images of a training on the server look otherwise, as a whole, than those the model was trained with: their
    statistics would move every layer, and harm structures that nobody drew.

    Args:
        network: PrimNet.
    """

    network: nn.Module
    event = Events.STARTED

    def __call__(self, engine: Trainer) -> None:
        def freeze(module: nn.Module, _: tuple[Any, ...]) -> None:
            module.eval()  # before every pass, since the trainer puts the whole network into training mode

        for module in self.network.modules():
            if isinstance(module, _BatchNorm):
                module.register_forward_pre_hook(freeze)


@dataclass(eq=False)
class UpdateServedModel:
    """
    Put the trained network in the place of the model that is served, once training is complete and if it is not worse.

    It is compared with the network as it was before the training, by the mean Dice of the labels that were kept back
    and of the rehearsal images: it must be as good in both. Of few labels none may be kept back; then the rehearsal
    decides alone. If neither is there, nothing speaks for the new model, and it is not taken.

    A model that is taken replaces the served one in one step, which stays in the folder ``previous`` beside it, under
    the time at which it was replaced. One that is not taken waits in the folder ``candidates`` for a person
    (:func:`approve`). ``decision.json`` says which it was, and why; so does the log.

    Args:
        network: the network as it is served: with its conditional bank.
        path: the model file.
        settings: settings of the model, which stay as they are.
        validator: evaluator of the labels that were kept back, with a key metric; ``None`` if there are none.
        rehearsal: images of the model's own bank.
    """

    network: nn.Module
    path: Path
    settings: Mapping[str, Any]
    validator: Evaluator | None = None
    rehearsal: BankDataset | None = None
    before: dict[str, float] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.path = Path(self.path)

    def attach(self, engine: Trainer) -> None:
        engine.add_event_handler(Events.STARTED, self.start)
        engine.add_event_handler(Events.COMPLETED, self)

    def start(self, engine: Trainer) -> None:
        """Measure the network as it is served."""
        self.before = self.scores()

    def __call__(self, engine: Trainer) -> None:
        state = self.network.state_dict()
        broken = non_finite(state)
        if broken is not None:
            raise DataError(f"{self.path}: training broke down ({broken} is not finite). The served model is kept.")
        after = self.scores()
        worse = [name for name, score in after.items() if not score >= self.before[name]]
        compared = ", ".join(f"{name} {self.before[name]:.3f} to {score:.3f}" for name, score in after.items())
        if worse or not after:
            why = f"it is worse on the {' and the '.join(worse)}" if worse else "nothing was there to compare it on"
            candidate = self.path.parent / CANDIDATES / f"{now()}{self.path.suffix}"
            save_model(state, self.settings, candidate)
        else:
            why = f"it is not worse on the {' and the '.join(after)}"
            candidate = None
            keep_previous(self.path)
            save_model(state, self.settings, self.path)
        decision = {"taken": candidate is None, "reason": why, "before": self.before, "after": after}
        decision |= {"time": now(), "epochs": engine.state.epoch, "candidate": candidate and candidate.name}
        write_atomic(self.path.with_name("decision.json"), json.dumps(decision, indent=1))
        logger.info(
            f"The new model {'is served now' if candidate is None else 'is not taken'}: {why} "
            f"(mean Dice: {compared or 'none'}). "
            + (f"start.sh --approve serves it: {candidate}." if candidate else "The one before is kept in `previous`.")
        )

    def scores(self) -> dict[str, float]:
        """Mean Dice of all that the network can be measured on."""
        result = {}
        if self.validator is not None:
            self.validator.run()
            result["labels kept back"] = float(self.validator.state.metrics[self.validator.state.key_metric_name])
        if self.rehearsal is not None and len(self.rehearsal):
            result["rehearsal images"] = rehearsal_dice(self.network, self.rehearsal)
        return result


@torch.no_grad()
def rehearsal_dice(network: nn.Module, rehearsal: BankDataset) -> float:
    """
    Mean Dice over the classes of the images in a network's bank, each in its own class.

    The network finds these images in its bank, masks included: it is given the entries after them.
    """
    shift, mode = getattr(network, "shift", 0), network.training
    classes = len(rehearsal.bank.images)
    metric = PartialDiceMetric()
    network.eval()
    network.shift = 1  # type: ignore[assignment]
    try:
        for index in range(len(rehearsal)):
            item = rehearsal[index]
            probability = network(item["image"][None].to(rehearsal.bank.images.device))
            predicted = nn.functional.one_hot(probability.argmax(1), classes).movedim(-1, 1).cpu()
            metric(predicted, expand(item["label"][0], item["sets"], classes)[None])
    finally:
        network.shift = shift  # type: ignore[assignment]
        network.train(mode)
    return metric.aggregate()


def keep_previous(path: Path) -> Path:
    """Put a model that is about to be replaced aside."""
    previous = path.parent / "previous" / f"{now()}{path.suffix}"
    copy_atomic(path, previous)
    return previous


def approve(path: str | Path) -> Path:
    """
    Let the last model that was not taken, which is returned, replace the served one. That goes to the folder
    ``previous``.
    """
    path = Path(path)
    waiting = sorted((path.parent / CANDIDATES).glob(f"*{path.suffix}"))
    if not waiting:
        raise DataError(f"{path}: no model waits to be approved beside it. Train one first.")
    load_model(waiting[-1])
    keep_previous(path)
    waiting[-1].replace(path)
    return waiting[-1]


def now() -> str:
    """The time, for the name of a file."""
    return datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%S_%fZ")
