"""Prediction with several sets of conditions: how much does the answer depend on which ones were shown?"""

from __future__ import annotations

from collections.abc import Callable

import torch

from dcl_monai.networks import DCLNet

__all__ = ["predict_sets"]


@torch.no_grad()
def predict_sets(
    network: DCLNet,
    inferer: Callable[[torch.Tensor, DCLNet], torch.Tensor],
    image: torch.Tensor,
    num_sets: int = 1,
) -> tuple[torch.Tensor, torch.Tensor]:
    """
    Predict once for every conditional set, the most similar images of the bank first and then those next to them.

    Args:
        network: the network.
        inferer: runs the network over an image, as MONAI's inferers do.
        image: BC[HWD].
        num_sets: number of sets; at most as many as the bank has images per class.

    Returns:
        mean and standard deviation of the class probabilities over the sets, both Bm[HWD]; the latter is zero for one
        set.
    """
    before = network.shift
    total = squares = torch.zeros((), device=image.device)
    try:
        for network.shift in range(num_sets):
            probabilities = inferer(image, network).double()
            total = total + probabilities
            squares = squares + probabilities**2
    finally:
        network.shift = before
    mean = total / num_sets
    return mean.float(), (squares / num_sets - mean**2).clamp_min(0).sqrt().float()
