"""The network as it is validated, exported and served: one image in, m class probabilities out."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import nn

from dcl_monai.conditions import ConditionBank

from .compnet import CompNet

HEADS = ("deep_supervision_heads", "super_head")
"""Modules of MONAI's DynUNet that are there for deep supervision alone; TorchScript cannot take them."""


class DCLNet(nn.Module):
    """
    A CompNet with its conditional bank: the target alone in, class probabilities out.

    Training works on ``DCLNet.compnet`` (the paper's PrimNet) with conditions from the training set. A network whose
    bank is empty, as before its training, is given blank conditions and a warning.

    The buffer ``settings_json`` holds what inference needs to know, as text in bytes, so that a model file is a plain
    state dict which every tool can load; see :func:`dcl_monai.networks.save_model`.

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
        self.register_buffer("settings_json", torch.zeros(0, dtype=torch.uint8))
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
            if self.bank.images.dim() < 5:
                warnings.warn("the conditional bank is empty: conditions are blank; load a trained model.")  # noqa: B028
                cond_image = torch.zeros_like(image).repeat_interleave(self.num_classes, dim=1)
                cond_mask = torch.zeros_like(image[:, :1]).repeat_interleave(self.num_classes, dim=1)
            else:
                cond_image, cond_mask = self.bank(image, self.shift, self.turn)
            split = torch.softmax(self.compnet(image, cond_image, cond_mask).float(), dim=1)
            return split[:, : self.num_classes] + split[:, self.num_classes :]
        return torch.softmax(self.compnet(image).float(), dim=1)

    def served_state(self) -> dict[str, torch.Tensor]:
        """Weights and bank of the network that is served, whose CompNet has :meth:`CompNet.served_settings`."""
        return {name: value for name, value in self.state_dict().items() if not set(HEADS) & set(name.split("."))}

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any) -> None:
        # older files have none, and the text is as long as it likes
        saved = state_dict.setdefault(prefix + "settings_json", torch.zeros(0, dtype=torch.uint8))
        self.settings_json = torch.empty_like(saved, device=self.bank.images.device)
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)
