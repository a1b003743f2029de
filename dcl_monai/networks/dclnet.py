"""The network as it is validated, exported and served: one image in, m class probabilities out."""

from __future__ import annotations

import torch
from torch import nn

from dcl_monai.conditions import ConditionBank

from .compnet import CompNet

__all__ = ["DCLNet"]

HEADS = ("deep_supervision_heads", "super_head")
"""Modules of MONAI's DynUNet that are there for deep supervision alone; TorchScript cannot take them."""


class DCLNet(nn.Module):
    """
    A CompNet with its conditional bank: the target alone in, class probabilities out.

    Training works on ``DCLNet.compnet`` (the paper's PrimNet) with conditions from the training set.

    Args:
        compnet: the network; in its unconditional form no bank is used.
        bank: the conditional bank; default: an empty one.

    Examples:
        >>> net = DCLNet(CompNet("BasicUNet", num_classes=4, conditional=False, spatial_dims=2))
        >>> net.eval()(torch.rand(1, 1, 32, 32)).shape
        torch.Size([1, 4, 32, 32])
    """

    __constants__ = ["conditional", "num_classes"]

    def __init__(self, compnet: CompNet, bank: ConditionBank | None = None) -> None:
        super().__init__()
        self.compnet = compnet
        self.num_classes = compnet.num_classes
        self.conditional = compnet.conditional
        self.bank = ConditionBank() if bank is None else bank
        # see ConditionBank.forward; set by the diagnostics for one validation
        self.shift = 0
        self.turn = 0

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """
        Args:
            image: target images, BC[HWD].

        Returns:
            class probabilities, Bm[HWD].
        """
        if self.conditional:
            cond_image, cond_mask = self.bank(image, self.shift, self.turn)
            split = torch.softmax(self.compnet(image, cond_image, cond_mask).float(), dim=1)
            return split[:, : self.num_classes] + split[:, self.num_classes :]
        return torch.softmax(self.compnet(image).float(), dim=1)

    def served_state(self) -> dict[str, torch.Tensor]:
        """Weights and bank of the network that is served, whose CompNet has :meth:`CompNet.served_settings`."""
        return {name: value for name, value in self.state_dict().items() if not set(HEADS) & set(name.split("."))}
