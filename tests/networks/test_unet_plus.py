"""Tests of UNet+."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from dcl_monai.networks import UNetPlus


@pytest.mark.parametrize(
    ("dims", "in_channels", "out_channels", "size"), [(2, 1, 4, (16, 24)), (2, 9, 8, (8, 8)), (3, 2, 3, (8, 16, 8))]
)
def test_output_is_as_large_as_the_input(dims, in_channels, out_channels, size):
    net = UNetPlus(in_channels, out_channels, spatial_dims=dims, features=(4, 6, 8))
    assert net(torch.rand(2, in_channels, *size)).shape == (2, out_channels, *size)


@pytest.mark.parametrize("classes", [3, 5])
def test_upsampling_has_as_many_feature_maps_as_classes(classes):
    net = UNetPlus(1, classes, features=(4, 6, 8, 10))
    transposed = [layer for layer in net.modules() if isinstance(layer, nn.ConvTranspose2d)]
    assert [layer.in_channels for layer in transposed] == [10, 8, 6]
    assert [layer.out_channels for layer in transposed] == [classes] * 3


def test_layers_of_the_paper():
    """Five levels of two 3 x 3 convolutions with batch norm, 64 to 1024 feature maps."""
    with torch.device("meta"):
        net = UNetPlus(1, 4)
    convolutions = [layer for layer in net.modules() if isinstance(layer, nn.Conv2d)]
    assert [layer.out_channels for layer in convolutions[:10]] == [
        width for width in (64, 128, 256, 512, 1024) for _ in range(2)
    ]
    assert all(layer.kernel_size == (3, 3) for layer in convolutions[:-1])
    assert convolutions[-1].kernel_size == (1, 1)
    norms = [layer for layer in net.modules() if isinstance(layer, nn.BatchNorm2d)]
    assert len(norms) == 10 + 4 + 8  # way down, upsampling, way up


def test_every_weight_learns():
    torch.manual_seed(0)
    net = UNetPlus(1, 3, features=(4, 6, 8))
    net(torch.randn(2, 1, 16, 16)).square().sum().backward()
    assert all(value.grad is not None and value.grad.abs().sum() > 0 for value in net.parameters())


def test_skips_carry_detail():
    """With the way through the depth cut off, the output still follows the input pixel by pixel."""
    torch.manual_seed(0)
    net = UNetPlus(1, 3, features=(4, 6, 8)).eval()
    image = torch.randn(1, 1, 16, 16)
    changed = image.clone()
    changed[0, 0, 3, 3] += 1
    with torch.no_grad():
        for up in net.up:
            for value in up.parameters():
                value.zero_()
        difference = (net(changed) - net(image)).abs().sum(1)[0]
    assert difference[3, 3] > 0
    assert difference[8:, 8:].max() == 0


@pytest.mark.parametrize("dims", [2, 3])
def test_script(dims):
    net = UNetPlus(2, 3, spatial_dims=dims, features=(4, 6, 8)).eval()
    image = torch.rand(1, 2, *[8] * dims)
    with torch.no_grad():
        torch.testing.assert_close(torch.jit.script(net)(image), net(image))
