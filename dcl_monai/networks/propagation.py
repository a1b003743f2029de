"""What the conditions say about the target: their masks, carried over by comparing features."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from monai.networks.blocks import Convolution
from monai.networks.layers.factories import Pool
from torch import nn
from torch.nn import functional as F

__all__ = ["MaskPropagation"]


class MaskPropagation(nn.Module):
    """
    Carry the mask of every condition over to the target, by attention from target features to condition features.

    One small encoder sees the target and each conditional image alone. Every place of the target looks for places of
    the condition that look alike and lie near, and takes their mask. Joined as input channels, target and condition
    must correspond voxel by voxel for the network to profit; compared by their features, they need not.

    Not part of the paper.

    Args:
        spatial_dims: 2 or 3.
        image_channels: channels C of an image.
        reduction: places are compared on a grid coarser by this factor, a power of two that divides the sizes; one
            number, or one per axis.
        features: channels of the encoder.

    Raises:
        ValueError: when a factor is no power of two, or none is above 1.
    """

    __constants__ = ["spatial_dims"]

    def __init__(
        self, spatial_dims: int, image_channels: int = 1, reduction: int | Sequence[int] = 8, features: int = 16
    ) -> None:
        super().__init__()
        self.spatial_dims = spatial_dims
        self.reduction = [reduction] * spatial_dims if isinstance(reduction, int) else list(reduction)
        if max(self.reduction) < 2 or any(factor < 1 or factor & (factor - 1) for factor in self.reduction):
            raise ValueError(f"`reduction` must be made of powers of two, one of them above 1, got {reduction}.")

        def block(inputs: int, outputs: int, stride: Sequence[int] | int = 1) -> nn.Module:
            # each image and channel by itself: target and conditions come in different numbers, and may be blank
            act = ("leakyrelu", {"negative_slope": 0.1})
            norm = ("instance", {"affine": True})
            return Convolution(spatial_dims, inputs, outputs, strides=stride, adn_ordering="NA", act=act, norm=norm)

        halvings = max(self.reduction).bit_length() - 1
        strides = [[2 if factor > 2**level else 1 for factor in self.reduction] for level in range(halvings)]
        widths = [image_channels, features // 2] + [features] * halvings
        self.encoder = nn.Sequential(
            Pool["avg", spatial_dims](strides[0]),  # half the size is fine enough to compare places
            *(block(widths[k], widths[k + 1], strides[k + 1]) for k in range(halvings - 1)),
            block(widths[halvings - 1], features),
            Convolution(spatial_dims, features, features, kernel_size=1, conv_only=True),
        )
        self.sharpness = nn.Parameter(torch.tensor(2.3))
        """Logarithm of the factor of the cosine between two features."""
        self.nearness = nn.Parameter(torch.tensor(-3.3))
        """Logarithm of the factor of the squared distance between two places."""

    def forward(self, image: torch.Tensor, cond_image: torch.Tensor, cond_mask: torch.Tensor) -> torch.Tensor:
        """
        Args:
            image: target images, BC[HWD], of sizes that ``reduction`` divides.
            cond_image: conditional images, B(mC)[HWD].
            cond_mask: their masks, Bm[HWD], between 0 and 1.

        Returns:
            the masks on the targets, Bm[HWD], between 0 and 1.
        """
        batch, classes = cond_mask.shape[0], cond_mask.shape[1]
        if self.spatial_dims == 3:
            values = F.avg_pool3d(cond_mask, self.reduction)
        else:
            values = F.avg_pool2d(cond_mask, self.reduction)
        conditions = cond_image.unflatten(1, [classes, image.shape[1]]).flatten(0, 1)
        query = self.sharpness.exp() * F.normalize(self.encoder(image), dim=1).flatten(2).transpose(1, 2)  # BNf
        key = F.normalize(self.encoder(conditions), dim=1).flatten(2).transpose(1, 2)  # (Bm)Nf
        # -n |p - q|^2 is 2n p.q - n |q|^2, but for what all places q share: some more features, and no matrix of pairs
        places = self.places(values)  # Nd
        nearness = self.nearness.exp()
        near = torch.cat([2.0 * nearness * places, torch.ones_like(places[:, :1])], dim=1)
        far = torch.cat([places, -nearness * places.square().sum(dim=1, keepdim=True)], dim=1)
        query = torch.cat([query, near.expand(batch, -1, -1)], dim=2).unsqueeze(1).expand(-1, classes, -1, -1)
        key = torch.cat([key, far.expand(batch * classes, -1, -1)], dim=2).unflatten(0, [batch, classes])
        # values with as many channels as keys, all but the first blank: PyTorch's fast kernels want it so
        value = F.pad(values.flatten(2).unsqueeze(3), [0, key.shape[3] - 1])
        carried = F.scaled_dot_product_attention(query, key, value, scale=1.0)[..., 0].reshape(values.shape)
        mode = "trilinear" if self.spatial_dims == 3 else "bilinear"
        return F.interpolate(carried, scale_factor=[float(r) for r in self.reduction], mode=mode, align_corners=False)

    def places(self, grid: torch.Tensor) -> torch.Tensor:
        """The coordinates of the places of a grid, from its middle: Nd."""
        axes = [torch.arange(n, device=grid.device, dtype=grid.dtype) - (n - 1) / 2 for n in grid.shape[2:]]
        return torch.stack(torch.meshgrid(axes, indexing="ij"), dim=-1).flatten(0, -2)
