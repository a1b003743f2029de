"""UNet+, the 2D backbone of the paper's ACDC and MSCMR experiments."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from monai.networks.blocks import Convolution
from torch import nn


class UNetPlus(nn.Module):
    """
    The modified 2D U-Net of Baumgartner et al., "An Exploration of 2D and 3D Deep Learning Techniques for Cardiac MR
    Image Segmentation", STACOM 2017: batch norm, and transposed convolutions with as many feature maps as classes.

    Convolutions keep the size (the original has valid ones), so the output is as large as the input.

    Args:
        in_channels: input channels.
        out_channels: output channels, also the feature maps of every upsampling layer.
        spatial_dims: 2 or 3.
        features: feature maps of the five levels, top to bottom; a sixth number, which BasicUNet has for its last
            upsampling, is not used, since upsampling layers have as many feature maps as classes.
        norm: normalisation of every layer; the paper's is batch norm.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        spatial_dims: int = 2,
        features: Sequence[int] = (64, 128, 256, 512, 1024),
        norm: str = "batch",
    ) -> None:
        super().__init__()
        features = list(features)[:5]

        conv = partial(Convolution, spatial_dims, act="RELU", norm=norm, adn_ordering="NA")
        transposed = partial(conv, strides=2, kernel_size=4, padding=1, output_padding=0, is_transposed=True)

        def double_conv(inputs: int, outputs: int) -> nn.Sequential:
            return nn.Sequential(conv(inputs, outputs), conv(outputs, outputs))

        self.down = nn.ModuleList(
            double_conv(inputs, outputs) for inputs, outputs in zip([in_channels, *features], features, strict=False)
        )
        self.pool: nn.Module = nn.MaxPool2d(2) if spatial_dims == 2 else nn.MaxPool3d(2)
        self.up = nn.ModuleList(transposed(inputs, out_channels) for inputs in reversed(features[1:]))
        self.merge = nn.ModuleList(double_conv(skip + out_channels, skip) for skip in reversed(features[:-1]))
        self.final = Convolution(spatial_dims, features[0], out_channels, kernel_size=1, conv_only=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """
        Args:
            x: BC[HWD], sizes divisible by 2 ** (levels - 1).

        Returns:
            logits, BN[HWD].
        """
        skips: list[torch.Tensor] = []
        for level, block in enumerate(self.down):
            x = block(x if level == 0 else self.pool(x))
            skips.append(x)
        for level, (up, merge) in enumerate(zip(self.up, self.merge)):  # noqa: B905 (TorchScript knows no `strict`)
            x = merge(torch.cat([skips[-2 - level], up(x)], dim=1))
        return self.final(x)
