"""Training that breaks down ends, and says so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from ignite.engine import Events
from monai.engines import Trainer
from monai.utils import CommonKeys as Keys
from torch import nn
from torch.utils.data import DistributedSampler

from dcl_monai.engines import first_output
from dcl_monai.utils import DataError


@dataclass(eq=False)
class StopOnBreakdown:
    """
    End training with an error at the first loss that is not finite, and at an epoch's end if a weight is not.

    Attach it before the handlers that validate: they and all that save come after an epoch that was found sound, and
    the model and the checkpoint of before stay.

    Ignite's :py:class:`ignite.handlers.TerminateOnNan` ends a run as if it were complete, and waits for the device
    after every iteration. Here a GPU is asked every ``interval`` iterations and at the end of an epoch, for the losses
    of all iterations since: it never waits for less than that. A CPU is asked every time.

    Args:
        network: PrimNet.
        interval: iterations between two looks at the losses, on a GPU.
    """

    network: nn.Module
    interval: int = 10
    losses: list[torch.Tensor] = field(default_factory=list, init=False)

    def attach(self, engine: Trainer) -> None:
        engine.add_event_handler(Events.EPOCH_STARTED, lambda _: self.losses.clear())
        engine.add_event_handler(Events.ITERATION_COMPLETED, self)
        engine.add_event_handler(Events.EPOCH_COMPLETED, self.finish)

    def __call__(self, engine: Trainer) -> None:
        self.losses.append(first_output(engine.state.output)[Keys.LOSS].detach())
        if len(self.losses) >= self.interval or self.losses[-1].device.type == "cpu":
            self.check(engine)

    def check(self, engine: Trainer) -> None:
        """Look at the losses since the last look."""
        if not self.losses:
            return
        losses = torch.stack(self.losses).cpu()
        self.losses.clear()
        broken = (~losses.isfinite()).nonzero().flatten().tolist()
        if broken:
            iteration = engine.state.iteration - len(losses) + 1 + broken[0]
            self.stop(engine, iteration, f"the loss is {losses[broken[0]].item():g}")

    def finish(self, engine: Trainer) -> None:
        """Look at the last losses and at the weights of an epoch."""
        self.check(engine)
        name = non_finite(self.network.state_dict())
        if name is not None:
            self.stop(engine, engine.state.iteration, f"{name} is not finite")

    def stop(self, engine: Trainer, iteration: int, what: str) -> None:
        """End the training by an error with the subjects of the batch, and the remedy."""
        subjects, spoilt = drawn_subjects(engine, iteration)
        batch = f", with images of {', '.join(subjects)}" if subjects else ""
        remedy = (
            f"The image of {', '.join(spoilt)} is not finite after preprocessing: correct it, or leave it out"
            if spoilt
            else "Lower --learning_rate; if that does not help, look at these images (python -m dcl_monai check)"
        )
        raise DataError(
            f"training broke down in epoch {engine.state.epoch}, iteration {iteration}: {what}{batch}. {remedy}. "
            "The best model so far is kept."
        )


def drawn_subjects(engine: Trainer, iteration: int) -> tuple[list[str], list[str]]:
    """
    Subjects of the batch of an iteration of the present epoch, and those whose image is not finite.

    Samplers of this project draw the same again, so nothing need be noted while all goes well.
    """
    loader = engine.state.dataloader
    sampler, dataset = getattr(loader, "sampler", None), getattr(loader, "dataset", None)
    items = getattr(dataset, "items", None)
    if not isinstance(sampler, DistributedSampler) or items is None:
        return [], []
    place = (iteration - 1) % engine.state.epoch_length
    drawn = list(sampler)[place * loader.batch_size : (place + 1) * loader.batch_size]
    batch = [items[index % len(items)] for index in drawn]
    spoilt = [item for item in batch if not torch.as_tensor(item["image"]).isfinite().all()]
    subjects, broken = ([str(item["subject"]) for item in part] for part in (batch, spoilt))
    return list(dict.fromkeys(subjects)), list(dict.fromkeys(broken))


def non_finite(state: Mapping[str, torch.Tensor]) -> str | None:
    """Name of the first tensor that holds a value that is not finite; ``None`` if all are finite."""
    floating = {name: value for name, value in state.items() if value.is_floating_point() and value.numel()}
    if not floating:
        return None
    finite = torch.stack([value.isfinite().all() for value in floating.values()]).tolist()  # one wait for all
    return next((name for name, sound in zip(floating, finite, strict=True) if not sound), None)
