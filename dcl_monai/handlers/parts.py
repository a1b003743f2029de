"""Which structures are one piece: stray parts of a prediction are dropped where that helped validation patients."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from ignite.engine import Engine, Events
from monai.handlers import from_engine
from monai.transforms import KeepLargestConnectedComponent

from dcl_monai.utils.distributed import on_first_rank

from .at_event import AtEvent
from .training import SaveNetwork

logger = logging.getLogger(__name__)


def largest_parts(output: Any) -> tuple[list[torch.Tensor], Any]:
    """
    Output transform of a metric: of each predicted structure the largest part alone, and the labels.

    Args:
        output: of an engine: items with ``pred``, one-hot C[HWD] with the background first, and ``label``.
    """
    keep = KeepLargestConnectedComponent(is_onehot=True)
    predictions, labels = from_engine(["pred", "label"])(output)
    return [torch.as_tensor(keep(prediction.clone())) for prediction in predictions], labels  # it works in place


@dataclass(eq=False)
class SingleParts(AtEvent):
    """
    Decide by validation patients for which structures the largest connected part alone is kept, as nnU-Net does, and
    write the decision into the model file, whose inference keeps to it.

    A structure that truly has several parts (both kidneys as one class) loses Dice by it, and is left as it is.

    Attach it to an evaluator of validation patients, run after training with the best weights, that has two
    :class:`~dcl_monai.handlers.PartialMeanDice`: ``val_dice``, and ``single_dice`` with :func:`largest_parts`.

    Args:
        classes: names of all classes, background first.
        save: writes the model file.
    """

    classes: Sequence[str]
    save: SaveNetwork
    names: list[str] = field(default_factory=list, init=False)
    event = Events.COMPLETED

    def gains(self, metrics: Mapping[str, float]) -> dict[str, float]:
        """What every structure that some patient shows gains by its largest part alone."""
        return {
            name: metrics[f"single_dice_{name}"] - metrics[f"val_dice_{name}"]
            for name in self.classes[1:]
            if f"val_dice_{name}" in metrics
        }

    def __call__(self, engine: Engine) -> None:
        gains = on_first_rank(self.gains)(engine.state.metrics)  # ranks may round differently
        self.names = [name for name, gain in gains.items() if gain > 0.0]
        self.save.settings["single_parts"] = self.names
        self.save(engine)
        shown = ", ".join(f"{name} (+{gains[name]:.4f})" for name in self.names) or "none"
        logger.info(f"structures of which only the largest part is kept, by Dice of validation patients: {shown}.")
