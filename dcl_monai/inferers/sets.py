"""Prediction with several sets of conditions, or by several models: how much does the answer depend on them?"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from dcl_monai.networks import DCLNet


@torch.no_grad()
def predict_sets(
    networks: DCLNet | Sequence[DCLNet],
    inferer: Callable[[torch.Tensor, DCLNet], torch.Tensor],
    image: torch.Tensor,
    num_sets: int = 1,
) -> tuple[torch.Tensor, torch.Tensor]:
    """
    Predict by every network, and once for every conditional set, the most similar images of the bank first and then
    those next to them.

    Args:
        networks: the network, or those of several folds.
        inferer: runs the network over an image, as MONAI's inferers do.
        image: BC[HWD].
        num_sets: number of sets; at most as many as the bank has images per class.

    Returns:
        mean and standard deviation of the class probabilities over networks and sets, both Bm[HWD]; the latter is zero
        for one network with one set.
    """
    chosen = networks if isinstance(networks, Sequence) else [networks]
    total = squares = torch.zeros((), device=image.device)
    for network in chosen:
        before = network.shift
        try:
            for network.shift in range(num_sets):
                probabilities = inferer(image, network).double()
                total = total + probabilities
                squares = squares + probabilities**2
        finally:
            network.shift = before
    count = num_sets * len(chosen)
    mean = total / count
    return mean.float(), (squares / count - mean**2).clamp_min(0).sqrt().float()
