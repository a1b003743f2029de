"""Tests of CompNet over several of MONAI's networks, all tiny."""

from __future__ import annotations

import pytest
import torch
from monai.networks.nets import BasicUNet
from torch import nn

from dcl_monai.losses import PriorLoss, class_probabilities
from dcl_monai.networks import CompNet

M = 3
BASIC = {"backbone": "BasicUNet", "spatial_dims": 2, "features": (4, 4, 8, 8, 8, 4)}
DYN = {"backbone": "DynUNet", "kernel_size": [3, 3, 3], "strides": [1, 2, 2], "upsample_kernel_size": [2, 2]}
UNET = {"backbone": "UNet", "spatial_dims": 2, "channels": (4, 6, 8), "strides": (2, 2)}
SEG = {"backbone": "SegResNet", "spatial_dims": 2, "init_filters": 8, "blocks_down": (1, 1, 1), "blocks_up": (1, 1)}
BACKBONES = {
    "BasicUNet": BASIC,
    "BasicUNet, batch norm": BASIC | {"norm": "batch"},
    "DynUNet": DYN | {"spatial_dims": 2, "filters": [4, 6, 8]},
    "DynUNet, residual": DYN | {"spatial_dims": 2, "filters": [4, 6, 8], "res_block": True, "norm_name": "batch"},
    "UNet": UNET | {"norm": "batch"},
    "UNet, residual": UNET | {"num_res_units": 2},
    "SegResNet": SEG,
    "UNetPlus": {"backbone": "UNetPlus", "features": (4, 6, 8)},
    "BasicUNet, 3D": BASIC | {"spatial_dims": 3},
    "DynUNet, 3D": DYN | {"spatial_dims": 3, "filters": [4, 6, 8]},
}
every_backbone = pytest.mark.parametrize("kwargs", BACKBONES.values(), ids=BACKBONES)


def make(kwargs, m=M, seed=0, **more):
    torch.manual_seed(seed)
    return CompNet(**kwargs, num_classes=m, **more)


def inputs(kwargs, m=M, channels=1, batch=2, size=None):
    """Target, conditional images and masks."""
    size = size or ((20, 16, 9) if kwargs.get("spatial_dims") == 3 else (20, 33))
    generator = torch.Generator().manual_seed(1)
    image = torch.randn(batch, channels, *size, generator=generator)
    cond_image = torch.randn(batch, m * channels, *size, generator=generator)
    cond_mask = (torch.rand(batch, m, *size, generator=generator) > 0.5).float()
    return image, cond_image, cond_mask


class Recorder(nn.Module):
    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.channels = (in_channels, out_channels)
        self.conv = nn.Conv2d(in_channels, out_channels, 1)
        self.seen: tuple[int, ...] = ()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen = tuple(x.shape)
        self.input = x
        return self.conv(x)


class TestShapes:
    @pytest.mark.parametrize(
        ("m", "channels", "conditional", "expected"),
        [
            (4, 1, True, (9, 8)),
            (4, 1, False, (1, 4)),
            (3, 2, True, (11, 6)),
            (3, 2, False, (2, 3)),
            (8, 1, True, (17, 16)),
        ],
    )
    def test_channel_counts(self, m, channels, conditional, expected):
        net = CompNet(Recorder, num_classes=m, image_channels=channels, conditional=conditional)
        assert net.backbone.channels == expected
        image, cond_image, cond_mask = inputs({}, m, channels)
        logits = net(image, cond_image, cond_mask) if conditional else net(image)
        assert logits.shape == (2, expected[1], 20, 33)
        assert net.backbone.seen == (2, expected[0], 32, 48)

    @every_backbone
    def test_odd_sizes(self, kwargs):
        image, cond_image, cond_mask = inputs(kwargs)
        assert make(kwargs)(image, cond_image, cond_mask).shape == (2, 2 * M, *image.shape[2:])
        assert make(kwargs, conditional=False)(image).shape == (2, M, *image.shape[2:])

    @pytest.mark.parametrize("name", [name for name in BACKBONES if "3D" not in name])
    def test_212(self, name):
        tensors = inputs({}, batch=1, size=(212, 212))
        with torch.no_grad():
            assert make(BACKBONES[name]).eval()(*tensors).shape == (1, 2 * M, 212, 212)

    @pytest.mark.parametrize("kwargs", [BASIC, BACKBONES["UNetPlus"]], ids=["BasicUNet", "UNetPlus"])
    def test_two_channels(self, kwargs):
        image, cond_image, cond_mask = inputs(kwargs, channels=2)
        net = make(kwargs, image_channels=2, zero_conditions=False)
        assert net(image, cond_image, cond_mask).shape == (2, 2 * M, 20, 33)

    def test_order_of_the_input_channels(self):
        net = CompNet(Recorder, num_classes=2)
        image, cond_image, cond_mask = (
            torch.full((1, n, 16, 16), value) for n, value in [(1, 1.0), (2, 2.0), (2, 3.0)]
        )
        net(image, cond_image, cond_mask)
        assert net.backbone.input[0, :, 0, 0].tolist() == [1, 2, 2, 3, 3]

    @pytest.mark.parametrize(("divisor", "size"), [(16, (32, 48)), (8, (24, 40)), (1, (20, 33)), ([16, 4], (32, 36))])
    def test_padding_replicates_the_edge(self, divisor, size):
        net = CompNet(Recorder, num_classes=M, conditional=False, divisor=divisor)
        image, *_ = inputs({})
        net(image)
        padded = net.backbone.input
        assert padded.shape[2:] == size
        assert torch.equal(padded[:, :, :20, :33], image)
        assert torch.equal(padded[:, :, 20:, :33], image[:, :, 19:].expand(-1, -1, size[0] - 20, -1))

    def test_mask_of_any_type(self):
        net = make(BASIC, zero_conditions=False).eval()
        image, cond_image, cond_mask = inputs(BASIC)
        assert torch.equal(net(image, cond_image, cond_mask.bool()), net(image, cond_image, cond_mask))


class TestErrors:
    def test_unknown_backbone(self):
        with pytest.raises(ValueError, match="'NoSuchNet'"):
            CompNet("NoSuchNet", num_classes=3)

    @pytest.mark.parametrize("missing", ["both", "mask"])
    def test_missing_conditions(self, missing):
        image, cond_image, _ = inputs(BASIC)
        with pytest.raises(RuntimeError, match="`cond_image` and `cond_mask`"):
            make(BASIC)(image, None if missing == "both" else cond_image)


@every_backbone
@pytest.mark.parametrize("conditional", [True, False])
def test_script(kwargs, conditional):
    net = make(kwargs, conditional=conditional, zero_conditions=False).eval()
    scripted = torch.jit.script(net)
    tensors = inputs(kwargs) if conditional else inputs(kwargs)[:1]
    with torch.no_grad():
        torch.testing.assert_close(scripted(*tensors), net(*tensors))


class TestZeroConditions:
    @every_backbone
    @pytest.mark.parametrize("channels", [1, 2])
    def test_conditions_are_ignored_until_learned(self, kwargs, channels):
        net = make(kwargs, image_channels=channels)
        image, cond_image, cond_mask = inputs(kwargs, channels=channels)
        others = cond_image.flip(0), 1 - cond_mask
        with torch.no_grad():
            before = probabilities(net(image, cond_image, cond_mask))
            torch.testing.assert_close(probabilities(net(image, *others)), before, rtol=0, atol=1e-6)
            assert not torch.allclose(probabilities(net(image.flip(0), cond_image, cond_mask)), before)
        loss = nn.functional.cross_entropy(net(image, cond_image, cond_mask), torch.zeros_like(image[:, 0]).long())
        loss.backward()
        torch.optim.SGD(net.parameters(), lr=1.0).step()
        with torch.no_grad():
            after = probabilities(net(image, cond_image, cond_mask))
            assert not torch.allclose(probabilities(net(image, others[0], cond_mask)), after)
            assert not torch.allclose(probabilities(net(image, cond_image, others[1])), after)

    @every_backbone
    def test_off(self, kwargs):
        net = make(kwargs, zero_conditions=False)
        image, cond_image, cond_mask = inputs(kwargs)
        with torch.no_grad():
            reference = net(image, cond_image, cond_mask)
            assert not torch.allclose(net(image, cond_image.flip(0), cond_mask), reference)
            assert not torch.allclose(net(image, cond_image, 1 - cond_mask), reference)


def probabilities(logits: torch.Tensor) -> torch.Tensor:
    """Class probabilities: intersection and extra summed."""
    split = logits.softmax(1)
    return split if split.shape[1] == M else split[:, :M] + split[:, M:]


def test_backbone_may_be_a_class():
    named, given = make(BASIC), make(BASIC | {"backbone": BasicUNet})
    tensors = inputs(BASIC)
    assert isinstance(given.backbone, BasicUNet)
    assert torch.equal(named.eval()(*tensors), given.eval()(*tensors))


class TestRouting:
    """The masks send a class to its intersection or its extra, and leave its probability alone."""

    def test_class_probabilities_do_not_depend_on_it(self):
        torch.manual_seed(0)
        net = CompNet("BasicUNet", M, spatial_dims=2, features=(4,) * 6).eval()
        image, images, masks = torch.randn(1, 1, 32, 32), torch.randn(1, M, 32, 32), torch.rand(1, M, 32, 32) > 0.5
        before = net(image, images, masks)
        with torch.no_grad():
            net.routing.fill_(4.0)
        after = net(image, images, masks)
        torch.testing.assert_close(class_probabilities(after, M), class_probabilities(before, M))
        cap, delta = after.chunk(2, dim=1)
        assert torch.equal(cap > delta, masks)

    def test_prior_teaches_it(self):
        torch.manual_seed(0)
        net = CompNet("BasicUNet", M, spatial_dims=2, features=(4,) * 6)
        masks = torch.rand(2, M, 32, 32) > 0.5
        PriorLoss(M)(net(torch.randn(2, 1, 32, 32), torch.randn(2, M, 32, 32), masks), masks).backward()
        assert (net.routing.grad < 0).all()

    def test_can_be_left_out(self):
        net = CompNet("BasicUNet", M, spatial_dims=2, features=(4,) * 6, routing=False)
        assert net.routing.numel() == 0
