"""How much memory a training step takes, found by running one without computing anything."""

from __future__ import annotations

import copy
import math
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from dcl_monai.engines.trainer import dual_batch, total
from dcl_monai.losses import ConditionalCompatibleLoss, DeepSupervision, class_probabilities
from dcl_monai.networks import CompNet
from dcl_monai.samples import Batch

PROCESS = 500_000_000
"""Bytes that a process takes before it trains: Python and its libraries, or the context of a GPU."""
OVERHEAD = {"cpu": 1.6, "cuda": 1.2}
"""Peak over what the tensors take: fragmented memory, and scratch space of convolutions. That of the CPU is the largest
that ``benchmarks/step_memory.py`` measured; that of CUDA, whose allocator leaves fewer holes, is assumed."""


class PeakMemory(TorchDispatchMode):
    """
    Count the bytes of all tensors that are made within it and in memory at once.

    On the ``meta`` device tensors have sizes and no content, so that a step of any size is counted in a second.
    """

    def __init__(self) -> None:
        super().__init__()
        self.live = self.peak = 0
        self.seen: set[int] = set()

    def count(self, tensor: torch.Tensor) -> None:
        """Count a tensor's storage, once, for as long as it is in memory."""
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if key in self.seen:
            return
        self.seen.add(key)
        self.live += size
        self.peak = max(self.peak, self.live)
        weakref.finalize(storage, self.forget, key, size)

    def forget(self, key: int, size: int) -> None:
        """Stop counting a storage."""
        self.seen.discard(key)
        self.live -= size

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(output):
            if isinstance(leaf, torch.Tensor):
                self.count(leaf)
        return output


def training_bytes(
    network: Mapping[str, Any], patch_size: Sequence[int], batch_size: int, bank_size: int, device: str
) -> int:
    """
    Bytes that training takes at its peak: the second stage, with the closed loop through DualNet.

    Networks and losses are those that train, built without content: the step is counted, not modelled. Beside the step
    there are the states of Adam, the copy of the best weights, and the conditional bank, which is part of the model.

    ``network`` are arguments of :class:`~dcl_monai.networks.CompNet`, with deep supervision; the bank holds so many
    images per class. On ``"cuda"`` the bundles train in mixed precision: activations of 16 bits.
    """
    return PROCESS + int(OVERHEAD[device] * counted_bytes(network, patch_size, batch_size, bank_size, device == "cuda"))


def counted_bytes(
    network: Mapping[str, Any], patch_size: Sequence[int], batch_size: int, bank_size: int, half: bool
) -> int:
    """The same of the tensors alone, see :func:`training_bytes`."""
    num_classes, channels = network["num_classes"], network.get("image_channels", 1)
    with torch.device("meta"):
        primnet = CompNet(**network)
        weights = sum(value.nbytes for value in primnet.parameters())
        dualnet = copy.deepcopy(primnet).eval().requires_grad_(False)
    voxels = math.prod(patch_size)
    bank = num_classes * bank_size * voxels * (4 * channels + 1)  # float32 images, masks of a byte
    # weights, their gradients, two states of Adam, DualNet, and on a CPU the best weights so far
    fixed = (5 if half else 6) * weights + bank
    if half:  # of mixed precision the weights have a copy in 16 bits
        primnet, dualnet, fixed = primnet.half(), dualnet.half(), fixed + weights
    meter = PeakMemory()
    with meter, torch.device("meta"):
        step(primnet, dualnet, make_batch(num_classes, patch_size, batch_size, half, channels))
    gradients = weights // 2 if half else weights  # they are counted in the step, too
    return meter.peak - gradients + fixed


def make_batch(num_classes: int, size: Sequence[int], items: int, half: bool = False, channels: int = 1) -> Batch:
    """A batch of :class:`~dcl_monai.data.ConditionalDataset`, empty."""
    dtype = torch.float16 if half else torch.float32

    def images(channels: int) -> torch.Tensor:
        return torch.zeros(items, channels, *size, dtype=dtype)

    def masks() -> torch.Tensor:
        return torch.ones(items, num_classes, *size, dtype=torch.bool)  # nothing is known: every set is valid

    return {
        "image": images(channels),
        "label": masks(),
        "cond_image": images(num_classes * channels),
        "cond_mask": masks(),
        "cond_known": masks(),
        "dual_class": torch.zeros(items, dtype=torch.int64),
        "dual_apart": torch.ones(items, num_classes, dtype=torch.bool),
        "dual_image": images(channels),
        "dual_label": masks(),
    }


def step(primnet: CompNet, dualnet: CompNet, batch: Batch, dual_weight: float = 0.2) -> None:
    """Forward and backward pass of stage 2, as :class:`~dcl_monai.engines.DCLTrainer` does them."""
    criterion = DeepSupervision(ConditionalCompatibleLoss(primnet.num_classes, "mmee", region_weight=1.0))
    logits = primnet(batch["image"], batch["cond_image"], batch["cond_mask"])
    primal = criterion.terms(logits, batch["label"], batch["cond_mask"], batch["cond_known"])
    finest = logits[:, 0] if logits.dim() > batch["label"].dim() else logits
    swapped = dual_batch(batch, class_probabilities(finest, primnet.num_classes))
    answer = dualnet(swapped["image"], swapped["cond_image"], swapped["cond_mask"])
    dual = criterion.terms(answer, swapped["label"], swapped["cond_mask"], swapped["cond_known"])
    ((1.0 - dual_weight) * total(primal) + dual_weight * total(dual)).backward()
