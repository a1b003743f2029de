"""The DCL trainer: the primal pass and, in stage 2, the dual pass through the frozen DualNet (Algorithm 1)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Literal, cast

import torch
from monai.engines import SupervisedTrainer
from monai.utils import CommonKeys as Keys
from torch import nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader

from dcl_monai.losses import FillLoss, class_probabilities
from dcl_monai.samples import Batch
from dcl_monai.utils import DataError

logger = logging.getLogger(__name__)

CONDITIONS: tuple[Literal["cond_image", "cond_mask"], ...] = ("cond_image", "cond_mask")
"""What a conditional network takes beside the image."""
TARGETS: tuple[Literal["label", "cond_mask", "cond_known"], ...] = ("label", "cond_mask", "cond_known")
"""What a loss takes beside the logits."""
LOSS_TERMS = ("loss", "supervised", "positive", "negative", "region", "prior", "fill", "dual")
"""What ``engine.state.output`` may hold of a loss: the whole, and its terms."""


def dual_batch(batch: Batch, prob: torch.Tensor) -> Batch:
    """
    Swap target and condition of class s (Section 3.3.1): the condition becomes the dual target, and the target with its
    predicted label the condition of class s.

    Conditions of the dual target's own subject (not ``dual_apart``) are blank: they would show it its own answer.

    Args:
        batch: a batch with conditions and a dual target.
        prob: class probabilities of the target, Bm[HWD]; the gradient of the dual loss flows back through channel s.

    Returns:
        a batch with conditions, without a further dual target.
    """
    selected = batch["dual_class"]
    size, classes = batch["image"].shape, prob.shape[1]
    cond_image = batch["cond_image"].unflatten(1, (classes, size[1]))
    per_class = (-1, classes, *[1] * (prob.dim() - 2))
    swap = nn.functional.one_hot(selected, classes).bool().reshape(per_class)
    apart = batch["dual_apart"].reshape(per_class)
    return {
        "image": batch["dual_image"],
        "label": batch["dual_label"],
        "cond_image": torch.where(
            swap.unsqueeze(2), batch["image"].unsqueeze(1), cond_image * apart.unsqueeze(2)
        ).flatten(1, 2),
        "cond_mask": torch.where(swap, prob, (batch["cond_mask"] & apart).to(prob.dtype)),
        "cond_known": batch["cond_known"] & apart | swap,
    }


class DCLTrainer(SupervisedTrainer):
    """
    Train PrimNet by L = (1 - l) L_cc^prim + l L_cc^dual (Eq. 10), or by L_cc alone (Eq. 8) while ``dual`` is off.

    The iteration is that of :py:class:`monai.engines.SupervisedTrainer`, with its AMP and gradient accumulation; the
    loss it minimises is :meth:`objective`. Batches without conditions train an unconditional network with the same
    code. The one entry of ``engine.state.output``, a list as MONAI's trackers expect it, holds, beside the usual keys,
    each term of the loss (:data:`LOSS_TERMS`), of which ``dual`` is the whole dual loss.

    Args:
        device: device to train on.
        max_epochs: epochs of both stages together.
        train_data_loader: batches of :class:`~dcl_monai.data.ConditionalDataset`.
        network: PrimNet, a :class:`~dcl_monai.networks.CompNet` (or its DistributedDataParallel).
        optimizer: optimizer of PrimNet.
        loss_function: loss with ``forward(logits, candidates[, cond_mask, cond_known])``; its terms are logged if it
            has a ``terms`` method.
        dual_network: DualNet, of the same form as PrimNet; it is frozen here. ``None`` for methods without the dual
            loop.
        dual_weight: l of Eq. 10; at 0 there is no closed loop.
        fill_loss: compatible self-training, a :class:`~dcl_monai.losses.FillLoss`: while ``dual`` is on, what DualNet
            predicts for the target is taught where nobody drew; if the batch has a ``plain_image``, for that, moved by
            its ``plain_grid`` (see :class:`~dcl_monai.data.ConditionalDataset`): a teacher sees the easier image. Not
            part of the paper.
        **kwargs: further arguments of :py:class:`monai.engines.SupervisedTrainer`, such as ``train_handlers``, ``amp``.
    """

    def __init__(
        self,
        device: str | torch.device,
        max_epochs: int,
        train_data_loader: DataLoader,
        network: nn.Module,
        optimizer: Optimizer,
        loss_function: Callable[..., torch.Tensor],
        dual_network: nn.Module | None = None,
        dual_weight: float = 0.2,
        fill_loss: FillLoss | None = None,
        **kwargs: Any,
    ) -> None:
        if not 0.0 <= dual_weight <= 1.0:
            raise ValueError(f"the weight of the dual loss must be between 0 and 1, got {dual_weight}.")
        if kwargs.get("epoch_length") is None and len(train_data_loader) == 0:
            raise DataError(
                f"{len(train_data_loader.sampler)} training image(s) or slices per epoch do not fill a batch of "  # type: ignore[arg-type]
                f"{train_data_loader.batch_size}. Set a smaller --batch_size."
            )
        self.criterion = loss_function
        self.dual = False
        self.dual_weight = dual_weight
        self.fill_loss = fill_loss
        self.dual_network = dual_network
        if dual_network is not None:
            # Evaluation mode and no weight gradients: its backward pass is over activations alone.
            dual_network.eval().requires_grad_(False)
        super().__init__(
            device=device,
            max_epochs=max_epochs,
            train_data_loader=train_data_loader,
            network=network,
            optimizer=optimizer,
            loss_function=self.objective,
            prepare_batch=self.prepare,
            decollate=False,
            **kwargs,
        )

    def prepare(
        self, batchdata: Batch, device: torch.device, non_blocking: bool, **kwargs: Any
    ) -> tuple[torch.Tensor, Batch, tuple[()], dict[str, torch.Tensor]]:
        """Move a batch to the device: network input, the whole batch as target, and the conditions."""
        moved = {
            key: value.to(device, non_blocking=non_blocking, **kwargs)
            for key, value in batchdata.items()
            if isinstance(value, torch.Tensor)
        }
        batch = cast(Batch, moved)
        return batch["image"], batch, (), {key: batch[key] for key in CONDITIONS if key in batch}

    def losses(self, logits: torch.Tensor, batch: Batch) -> tuple[dict[str, torch.Tensor], torch.Tensor | None]:
        """
        The terms of the primal loss of what PrimNet predicts for a batch and, while ``dual`` is on, the dual loss and
        the term of what DualNet fills in.
        """
        primal = self.loss_terms(logits, batch)
        if not self.dual:
            return primal, None
        if self.dual_network is None:
            raise RuntimeError("the dual loop is on, but there is no `dual_network`.")
        finest = logits[:, 0] if logits.dim() > batch["label"].dim() else logits  # of deeply supervised heads
        if self.fill_loss is not None and self.fill_loss.weight > 0.0:
            with torch.no_grad():
                filled = class_probabilities(self.dual_network(*unaugmented(batch)), batch["label"].shape[1])
                if "plain_grid" in batch:
                    filled = warp(filled, batch["plain_grid"])
            primal["fill"] = self.fill_loss(finest, filled, batch["label"])
        if self.dual_weight == 0.0 or "dual_class" not in batch:  # plain epochs load no conditions
            return primal, None
        swapped = dual_batch(batch, class_probabilities(finest, batch["label"].shape[1]))
        dual_logits = self.dual_network(swapped["image"], *(swapped[key] for key in CONDITIONS))
        return primal, total(self.loss_terms(dual_logits, swapped))

    def loss_terms(self, logits: torch.Tensor, batch: Batch) -> dict[str, torch.Tensor]:
        """The terms of the loss of one prediction."""
        args = [batch[key] for key in TARGETS if key in batch]
        terms = getattr(self.criterion, "terms", None)
        return terms(logits, *args) if terms is not None else {"supervised": self.criterion(logits, *args)}

    def objective(self, logits: torch.Tensor, batch: Batch) -> torch.Tensor:
        """Eq. 8, or Eq. 10 while ``dual`` is on; the terms are noted in ``engine.state.output``."""
        primal, dual = self.losses(logits, batch)
        self.state.output.update({name: value.detach() for name, value in primal.items()})
        if dual is None:
            return total(primal)
        self.state.output["dual"] = dual.detach()
        return (1.0 - self.dual_weight) * total(primal) + self.dual_weight * dual

    def run(self) -> None:  # type: ignore[override]
        """Train; a run that was resumed after its last epoch is complete and returns at once."""
        if self.state.epoch >= self.state.max_epochs:
            logger.info("this run is complete: nothing left to train.")
            return
        super().run()

    def _iteration(  # type: ignore[override]  # a list, as MONAI's own is after it has decollated
        self, engine: SupervisedTrainer, batchdata: dict[str, torch.Tensor]
    ) -> list[dict[str, Any]]:
        output = super()._iteration(engine, batchdata)
        output[Keys.LABEL] = output[Keys.LABEL][Keys.LABEL]  # the whole batch stood in for the target
        return [output]


def first_output(output: list[dict[str, Any]] | dict[str, Any]) -> dict[str, Any]:
    """What an iteration gave: of a :class:`DCLTrainer` and of trainers that decollate the first of a list."""
    return output[0] if isinstance(output, list) else output


def unaugmented(batch: Batch) -> list[torch.Tensor]:
    """
    The network's inputs before their augmentation, as it sees images and conditions in service.

    What the batch does not have in this form is taken as it is.
    """
    inputs = [batch.get("plain_image", batch["image"])]
    if "cond_image" in batch:
        inputs += [
            batch.get("plain_cond_image", batch["cond_image"]),
            batch.get("plain_cond_mask", batch["cond_mask"]),
        ]
    return inputs


def warp(prob: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
    """
    Bring what was predicted for an image before its augmentation to where the augmentation moved it.

    :py:class:`monai.networks.blocks.Warp` takes displacements in voxels. Here the places themselves are known.

    Args:
        prob: Bm[HWD].
        grid: where each voxel comes from, in its last d channels, from -0.5 to 0.5 along each axis: what
            :py:class:`monai.transforms.AddCoordinateChannels` adds, moved with the image.
    """
    places = 2.0 * grid[:, -(grid.dim() - 2) :].flip(1).movedim(1, -1)  # from -1 to 1, the last axis first
    return nn.functional.grid_sample(prob, places.to(prob.dtype), padding_mode="border", align_corners=True)


def total(terms: dict[str, torch.Tensor]) -> torch.Tensor:
    """Sum the terms of a loss."""
    return torch.stack(list(terms.values())).sum()
