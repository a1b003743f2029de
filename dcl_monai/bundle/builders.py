"""Builders that ``train.json`` names, for what would be several expressions, or the same evaluator several times."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from ignite.metrics import Metric
from monai.engines import SupervisedEvaluator

from dcl_monai.handlers import DiceTable, PartialMeanDice, ShuffleConditions, SingleParts, largest_parts
from dcl_monai.networks import CompNet, DCLNet
from dcl_monai.utils import as_bool


def primal_network(network: DCLNet, channels_last: bool | str | None = None) -> CompNet:
    """
    PrimNet, the part of a network that is trained, with the memory layout that suits its device.

    Args:
        network: the network with its conditional bank, on its device.
        channels_last: whether the channels of an image lie side by side in memory; default: on a CPU, where
            convolutions are faster so.
    """
    primnet = network.compnet
    weights = list(primnet.parameters())
    if channels_last is None:
        channels_last = weights[0].device.type == "cpu"
    volumes = max(weight.dim() for weight in weights) == 5
    last = torch.channels_last_3d if volumes else torch.channels_last
    layout = last if as_bool(channels_last) else torch.contiguous_format
    return primnet.to(memory_format=layout)  # type: ignore[call-overload, no-any-return]  # unknown to torch's types


def dual_network(primnet: CompNet, dual: bool | str = True, fill_weight: float = 0.0) -> CompNet | None:
    """
    DualNet, a copy of PrimNet; ``None`` where neither the dual loop nor filling needs it.

    Args:
        primnet: PrimNet.
        dual: whether the dual loop is used.
        fill_weight: weight of what DualNet fills in.
    """
    return copy.deepcopy(primnet) if as_bool(dual) or fill_weight else None


class DiceEvaluator(SupervisedEvaluator):
    """
    MONAI's evaluator, which can be repeated on the same data by other metrics and handlers.

    Args:
        key_val_metric: name and metric, a :class:`~dcl_monai.handlers.PartialMeanDice`.
        val_handlers: handlers to attach; a repetition has its own.
        **kwargs: further arguments of :py:class:`monai.engines.SupervisedEvaluator`.
    """

    def __init__(
        self, key_val_metric: Mapping[str, PartialMeanDice], val_handlers: Sequence[Any] | None = None, **kwargs: Any
    ) -> None:
        self.arguments = kwargs
        self.dice = next(iter(key_val_metric.values()))
        super().__init__(key_val_metric=dict(key_val_metric), val_handlers=val_handlers, **kwargs)

    def repeated(self, metrics: Mapping[str, Metric], handlers: Sequence[Any]) -> SupervisedEvaluator:
        """An evaluator of the same network and data by other metrics, the key metric first, and handlers."""
        (key, metric), *others = metrics.items()
        return SupervisedEvaluator(
            key_val_metric={key: metric}, additional_metrics=dict(others), val_handlers=handlers, **self.arguments
        )


def parts_evaluator(evaluator: DiceEvaluator, rule: SingleParts) -> SupervisedEvaluator:
    """
    The validation once more, with Dice of all predicted parts and Dice of the largest part of every structure.

    Args:
        evaluator: the validation.
        rule: decides by the two.
    """
    metrics = {"val_dice": evaluator.dice.copy(), "single_dice": evaluator.dice.copy(largest_parts)}
    return evaluator.repeated(metrics, [rule])


def shuffled_evaluator(
    evaluator: DiceEvaluator, output_dir: str | None = None, wrong_class: bool = False
) -> SupervisedEvaluator:
    """
    A validation or test once more, with conditions that were picked for another target, or for another class.

    Args:
        evaluator: the validation or test.
        output_dir: folder of a table of Dice by volume, ``test_dice_shuffled.csv`` or ``test_dice_wrong_class.csv``;
            default: no table.
        wrong_class: give every class the conditions of another class.
    """
    name = "wrong_class" if wrong_class else "shuffled"
    handlers: list[Any] = [ShuffleConditions(cast(DCLNet, evaluator.network), wrong_class)]
    dice = evaluator.dice.copy()
    if output_dir is not None:
        title = f"the same with {'conditions of the wrong class' if wrong_class else 'shuffled conditions'}"
        path = str(Path(output_dir) / f"test_dice_{name}.csv")
        handlers.append(DiceTable(dice.classes, path, f"{name}_dice", dice.unions, title))
    return evaluator.repeated({f"{name}_dice": dice}, handlers)
