"""How long a training step takes on this machine, measured on a few."""

from __future__ import annotations

import copy
import operator
import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from dcl_monai.engines.trainer import total
from dcl_monai.losses import ConditionalCompatibleLoss, DeepSupervision
from dcl_monai.networks import CompNet

from .memory import make_batch, step
from .planner import Plan

LOADING = 1.3
"""A step of a real training over one of a prepared batch: augmentation, and what DualNet fills in. Two cores."""


def say_time(plan: Plan, num_classes: int, channels: int, steps: tuple[int, int]) -> str:
    """
    How long a training takes, measured on a few steps where this machine is the one that was planned for.

    Args:
        plan: the plan.
        num_classes: number of classes.
        channels: channels of an image.
        steps: steps of stage 1 and of stage 2.
    """
    if plan.device == "cuda" and not torch.cuda.is_available():
        return "its time on a GPU was not measured here"
    network = {**plan.network, "num_classes": num_classes, "image_channels": channels}
    # a step of a large network takes a minute of a CPU: that of one item does for an estimate
    items, measured = (plan.batch_size, 2) if plan.small or plan.device == "cuda" else (1, 1)
    seconds = step_seconds(network, plan.topology.patch_size, items, plan.device, measured)
    hours = sum(map(operator.mul, steps, seconds)) * plan.batch_size / items / 3600
    return f"about {hours:,.0f} hours here" if hours > 2 else f"about {60 * hours:.0f} minutes here"


def step_seconds(
    network: Mapping[str, Any], patch_size: Sequence[int], batch_size: int, device: str, steps: int = 2
) -> tuple[float, float]:
    """
    Seconds that a step of stage 1 and a step of stage 2 take, measured on ``steps`` of either, after one that is not.

    ``network`` are arguments of :class:`~dcl_monai.networks.CompNet`, ``device`` is ``"cpu"`` or ``"cuda"``.
    """
    primnet = CompNet(**network).to(device)
    dualnet = copy.deepcopy(primnet).eval().requires_grad_(False)
    criterion = DeepSupervision(ConditionalCompatibleLoss(primnet.num_classes, "ce", region_weight=1.0)).to(device)
    with torch.device(device):
        batch = make_batch(primnet.num_classes, patch_size, batch_size, channels=primnet.image_channels)

    def first() -> None:
        logits = primnet(batch["image"], batch["cond_image"], batch["cond_mask"])
        terms = criterion.terms(logits, batch["label"], batch["cond_mask"], batch["cond_known"])
        total(terms).backward()

    seconds = []
    for run in (first, lambda: step(primnet, dualnet, batch)):
        with torch.autocast(device, enabled=device == "cuda"):
            run()
            start = _now(device)
            for _ in range(steps):
                run()
        seconds.append(LOADING * (_now(device) - start) / steps)
    return seconds[0], seconds[1]


def _now(device: str) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()
