"""Diagnostics: does the network use its conditions, and does the dual loop teach it anything?

Neither shows in the loss. A network that ignores its conditions can still satisfy the prior, and the gradient of the
dual loss flows through the condition channel alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from ignite.engine import Engine, Events

from dcl_monai.engines import DCLTrainer
from dcl_monai.engines.trainer import total
from dcl_monai.networks import DCLNet
from dcl_monai.utils.distributed import average

from .stages import unwrapped


@dataclass(eq=False)
class ShuffleConditions:
    """
    Give every target conditions that were picked for another one, during the runs of an evaluator.

    If Dice does not fall, the network does not use its conditions. Attach it to an evaluator of its own.

    Args:
        network: network whose conditions are shuffled.
        wrong_class: give every class the conditions of another class instead.
    """

    network: DCLNet
    wrong_class: bool = False

    def attach(self, engine: Engine) -> None:
        engine.add_event_handler(Events.STARTED, self.shift, 1)
        engine.add_event_handler(Events.COMPLETED, self.shift, 0)
        engine.add_event_handler(Events.EXCEPTION_RAISED, self.end)

    def shift(self, engine: Engine, places: int) -> None:
        """Take the bank's entry, or class, so many places after the one picked."""
        if self.wrong_class:
            self.network.turn = places
        else:
            self.network.shift = places

    def end(self, engine: Engine, error: BaseException) -> None:
        """Leave the network as it was, whatever happened."""
        self.network.shift = self.network.turn = 0
        raise error


@dataclass(eq=False)
class GradientRatio:
    """
    Measure the norm of the gradient of the dual loss relative to that of the primal loss, on one batch per interval.

    The result stands in ``engine.state.metrics["gradient_ratio"]``. PrimNet is in evaluation mode while it is measured,
    so that its batch statistics do not change. Several ranks measure the gradients of their batches together.

    Args:
        interval: epochs between two measurements.
    """

    interval: int = 1

    def attach(self, engine: DCLTrainer) -> None:
        engine.add_event_handler(Events.EPOCH_STARTED, lambda _: engine.state.metrics.pop("gradient_ratio", None))
        engine.add_event_handler(Events.EPOCH_COMPLETED(every=self.interval), self)

    def __call__(self, engine: DCLTrainer) -> None:
        if not engine.dual:
            return
        image, batch, _, conditions = engine.prepare(engine.state.batch, engine.state.device, engine.non_blocking)
        # DistributedDataParallel allows no other backward pass than its own, torch.compile keeps no graph for a second
        network = unwrapped(engine.network)
        weights = [p for p in network.parameters() if p.requires_grad]
        network.eval()
        with torch.autocast(engine.state.device.type, enabled=engine.amp):
            primal, dual = engine.losses(network(image, **conditions), batch)
        if dual is not None:
            norms = []
            for loss in (total(primal), dual):
                # heads of deep supervision are unused in evaluation mode
                gradients = torch.autograd.grad(loss, weights, retain_graph=True, allow_unused=True)
                norms.append(average(torch.cat([g.flatten() for g in gradients if g is not None])).norm())
            engine.state.metrics["gradient_ratio"] = float(norms[1] / norms[0])
        network.train()
