"""CompNet: any MONAI segmentation network, adapted to conditional input and to intersection and extra output."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import monai.networks.nets
import torch
from torch import nn
from torch.nn import functional as F

from dcl_monai.utils import as_bool

from .unet_plus import UNetPlus


class CompNet(nn.Module):
    """
    The compatible network (Fig. 3): a target image and, for every class, a conditional image with its mask.

    The conditional form has C + m (C + 1) input channels for images of C channels (1 + 2m for C = 1) and
    2m output channels, intersections then extras (Eq. 5). The unconditional form has C and m: the plain network of
    rows #1-#3. The input is padded to a multiple of ``divisor`` and the output cropped back, so that 212 x 212 images
    suit every backbone.

    Args:
        backbone: name of a network in :py:mod:`monai.networks.nets` or ``"UNetPlus"``, or a callable that takes
            ``in_channels`` and ``out_channels`` and returns a network.
        num_classes: number of classes m, background included.
        image_channels: channels C of an image.
        conditional: whether the network takes conditions.
        zero_conditions: start with zero weights for the conditions, so that the network begins as the plain one.
        condition_scale: factor of the conditions. Adam changes every weight by about the learning rate, even if its
            input is uninformative. A factor below 1 keeps the conditions from outweighing the target early.
        routing: read the backbone's 2m outputs as m class logits and m routes, to which the conditional masks are added
            times a learned factor: inside its mask a class goes to the intersection, outside to the extra. All that
            L_prior asks for is then learned without touching the class probabilities, and the backbone need not carry
            the masks to its last layer. Without it the outputs are the 2m logits themselves, as in the paper.
        divisor: spatial sizes are padded to a multiple of it; one number, or one per axis where a network pools
            some axes more often than others.
        **kwargs: further arguments of the backbone.

    Attributes:
        settings: the arguments as plain data, to be saved with the weights; empty if the backbone is a callable.

    Raises:
        ValueError: when the backbone does not exist.

    Examples:
        >>> net = CompNet("BasicUNet", num_classes=4, spatial_dims=2, features=(8, 8, 16, 16, 16, 8))
        >>> image, cond_image, cond_mask = torch.rand(2, 1, 20, 20), torch.rand(2, 4, 20, 20), torch.rand(2, 4, 20, 20)
        >>> net(image, cond_image, cond_mask).shape
        torch.Size([2, 8, 20, 20])
    """

    __constants__ = ["condition_scale", "conditional"]

    def __init__(
        self,
        backbone: str | Callable[..., nn.Module],
        num_classes: int,
        image_channels: int = 1,
        conditional: bool | str = True,
        zero_conditions: bool = True,
        condition_scale: float = 1.0,
        routing: bool = True,
        divisor: int | Sequence[int] = 16,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        conditional = as_bool(conditional)
        self.num_classes = num_classes
        self.image_channels = image_channels
        self.conditional = conditional
        self.condition_scale = condition_scale
        self.divisors = [divisor] * 3 if isinstance(divisor, int) else list(divisor)
        settings = {
            "backbone": backbone,
            "num_classes": num_classes,
            "image_channels": image_channels,
            "conditional": conditional,
            "zero_conditions": zero_conditions,
            "condition_scale": condition_scale,
            "routing": routing,
            "divisor": divisor,
            **kwargs,
        }
        self.settings = settings if isinstance(backbone, str) else {}
        make = _factory(backbone)

        def build(conditional: bool) -> nn.Module:
            conditions = num_classes * (image_channels + 1) if conditional else 0
            outputs = 2 * num_classes if conditional else num_classes
            return make(in_channels=image_channels + conditions, out_channels=outputs, **kwargs)

        self.backbone = build(conditional)
        routes = num_classes if conditional and routing else 0
        # without routes there is nothing to learn: DistributedDataParallel would wait for its gradient
        self.routing = nn.Parameter(torch.full((routes,), 2.0), requires_grad=routes > 0)
        if conditional and zero_conditions:
            with torch.device("meta"):
                plain = build(False)
            self._zero_conditions(plain)

    def forward(
        self, image: torch.Tensor, cond_image: torch.Tensor | None = None, cond_mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        """
        Args:
            image: target images, BC[HWD].
            cond_image: conditional images, B(mC)[HWD], in the order of the classes.
            cond_mask: mask of class j in the conditional image of class j, Bm[HWD], between 0 and 1.

        Returns:
            logits, B(2m)[HWD]: intersections then extras; Bm[HWD] for the unconditional form. A backbone with deep
            supervision gives Bk(2m)[HWD] in training, k heads from fine to coarse.
        """
        pad: list[int] = []  # written so that exporters see the new size as a multiple of the divisor
        for axis in range(image.dim() - 3, -1, -1):
            size, divisor = image.shape[2 + axis], self.divisors[axis]
            pad += [0, (size + divisor - 1) // divisor * divisor - size]
        inputs = F.pad(image, pad, mode="replicate")
        if self.conditional:
            if cond_image is None or cond_mask is None:
                raise RuntimeError("a conditional CompNet needs `cond_image` and `cond_mask`.")
            shown = F.pad(cond_image, pad, mode="replicate")
            masks = F.pad(cond_mask.to(image.dtype), pad, mode="replicate")
            inputs = torch.cat([inputs, self.condition_scale * shown, self.condition_scale * masks], dim=1)
        logits = self.backbone(inputs)
        logits = F.pad(logits, [-amount for amount in pad])
        heads = logits.dim() - image.dim()  # 1 where deep supervision stacks its heads, 0 elsewhere
        if cond_mask is not None and self.routing.numel() > 0:
            factor = self.routing.reshape([-1] + [1] * (cond_mask.dim() - 2))
            inside = factor * (2.0 * cond_mask.to(logits.dtype) - 1.0)
            classes, route = logits.chunk(2, dim=1 + heads)
            route = route + (inside.unsqueeze(1) if heads > 0 else inside)
            logits = torch.cat([classes + F.logsigmoid(route), classes + F.logsigmoid(-route)], dim=1 + heads)
        return logits

    def served_settings(self) -> dict[str, Any]:
        """The settings of the network that is served: without deep supervision, which is there for training alone."""
        return self.settings | ({"deep_supervision": False} if "deep_supervision" in self.settings else {})

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], **default: Any) -> CompNet:
        """
        Build the network that a model file was trained with.

        Args:
            settings: ``CompNet.settings`` of that network; may be empty.
            **default: arguments where the settings say nothing.
        """
        return cls(**(settings or default))

    @torch.no_grad()
    def _zero_conditions(self, plain: nn.Module) -> None:
        """Set the weights of the condition channels to zero in every layer that is larger than without conditions."""
        shapes = {name: value.shape for name, value in plain.named_parameters()}
        for name, value in self.backbone.named_parameters():
            for axis, (size, old) in enumerate(zip(value.shape, shapes[name], strict=True)):
                if size - old > self.num_classes:
                    value.narrow(axis, self.image_channels, size - old).zero_()


def _factory(backbone: str | Callable[..., nn.Module]) -> Callable[..., nn.Module]:
    if callable(backbone):
        return backbone
    make = UNetPlus if backbone == "UNetPlus" else getattr(monai.networks.nets, backbone, None)
    if make is None:
        raise ValueError(f"monai.networks.nets has no network {backbone!r}.")
    return make
