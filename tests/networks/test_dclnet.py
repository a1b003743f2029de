"""Tests of the network as it is served: an image in, class probabilities out."""

from __future__ import annotations

import copy

import pytest
import torch
from helpers import DEEP_NET

from dcl_monai.conditions import ConditionBank
from dcl_monai.networks import CompNet, DCLNet

M = 3
SIZES = [(32, 32), (33, 40), (21, 47), (50, 16)]


def make(conditional=True, norm="batch", filled=True, zero_conditions=False, dims=2):
    torch.manual_seed(0)
    settings = {"conditional": conditional, "zero_conditions": zero_conditions, "spatial_dims": dims, "norm": norm}
    net = DCLNet(CompNet("BasicUNet", num_classes=M, features=(4, 4, 8, 8, 8, 4), **settings))
    if conditional and filled:
        images = torch.randn(M, 4, 1, *[30] * dims)
        net.bank.fill(images, images[:, :, 0] > 0, torch.ones(M, 4, dtype=torch.bool))
    return net.eval()


def image(size=(33, 40), batch=2):
    return torch.randn(batch, 1, *size, generator=torch.Generator().manual_seed(1))


both = pytest.mark.parametrize("conditional", [True, False])


@both
@pytest.mark.parametrize("size", SIZES)
def test_probabilities(conditional, size):
    probabilities = make(conditional)(image(size))
    assert probabilities.shape == (2, M, *size)
    assert probabilities.min() >= 0
    torch.testing.assert_close(probabilities.sum(1), torch.ones(2, *size))


def test_probability_is_intersection_plus_extra():
    net = make()
    cond_image, cond_mask = net.bank(image())
    split = net.compnet(image(), cond_image, cond_mask).softmax(1)
    torch.testing.assert_close(net(image()), split[:, :M] + split[:, M:])


@both
def test_scripted_is_eager(conditional):
    net = make(conditional)
    scripted = torch.jit.script(net)
    with torch.no_grad():
        for size in SIZES:
            torch.testing.assert_close(scripted(image(size)), net(image(size)))


def test_scripted_in_3d():
    net = make(dims=3)
    with torch.no_grad():
        target = image((20, 16, 9), batch=1)
        torch.testing.assert_close(torch.jit.script(net)(target), net(target))


def test_scripted_and_saved(tmp_path):
    net = make()
    torch.jit.script(net).save(tmp_path / "model.ts")
    restored = torch.jit.load(tmp_path / "model.ts")
    with torch.no_grad():
        torch.testing.assert_close(restored(image()), net(image()))


@both
def test_weights_carry_the_bank(tmp_path, conditional):
    net = make(conditional)
    torch.save(net.state_dict(), tmp_path / "model.pt")
    other = make(conditional, filled=False)
    with torch.no_grad():
        for value in other.parameters():
            value.zero_()
        assert conditional or not torch.allclose(other(image()), net(image()))
        other.load_state_dict(torch.load(tmp_path / "model.pt", weights_only=True))
        assert torch.equal(other(image()), net(image()))


@both
@pytest.mark.parametrize("norm", ["batch", "instance"])
def test_batch_mates_do_not_matter(conditional, norm):
    net = make(conditional, norm)
    targets = image(batch=3)
    with torch.no_grad():
        whole = net(targets)
        for b in range(3):
            torch.testing.assert_close(net(targets[b : b + 1])[0], whole[b])


def test_shift_shows_whether_conditions_are_used():
    for zero, used in [(False, True), (True, False)]:
        net = make(zero_conditions=zero)
        with torch.no_grad():
            own = net(image())
            net.shift = 1
            assert torch.allclose(net(image()), own) != used


def test_empty_bank_gives_blank_conditions_and_a_warning():
    net = make(filled=False)
    blank = torch.zeros(len(image()), net.num_classes, *image().shape[2:])
    with pytest.warns(UserWarning, match="bank is empty"):
        found = net(image())
    split = net.compnet(image(), blank, blank).softmax(1)
    torch.testing.assert_close(found, split[:, : net.num_classes] + split[:, net.num_classes :])


def test_unconditional_needs_no_bank():
    net = make(conditional=False)
    torch.testing.assert_close(net(image()), net.compnet(image()).softmax(1))


def test_given_bank_is_used():
    bank = ConditionBank()
    assert DCLNet(make().compnet, bank).bank is bank


def test_copy_is_independent():
    net = make()
    twin = copy.deepcopy(net)
    twin.bank.images.zero_()
    with torch.no_grad():
        assert not torch.allclose(twin(image()), net(image()))


def test_half_precision_sums_to_one():
    net = make()
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        probabilities = net(image())
    assert probabilities.dtype == torch.float32
    torch.testing.assert_close(probabilities.sum(1), torch.ones(2, 33, 40))


def test_served_without_the_heads_of_deep_supervision():
    """The network that is served has no heads, gives the same, and can be scripted, which MONAI's heads cannot."""
    compnet = CompNet(num_classes=M, **DEEP_NET)
    trained = DCLNet(compnet)
    images = torch.randn(M, 2, 1, 8, 8, 8)
    trained.bank.fill(images, images[:, :, 0] > 0, torch.ones(M, 2, dtype=torch.bool))
    served = DCLNet(CompNet.from_settings(compnet.served_settings()))
    state = trained.served_state()
    assert len(state) < len(trained.state_dict())
    served.load_state_dict(state)  # strict: neither more nor less
    target = torch.randn(2, 1, 9, 8, 8)
    with torch.no_grad():
        expected = trained.eval()(target)
        torch.testing.assert_close(served.eval()(target), expected)
        torch.testing.assert_close(torch.jit.script(served)(target), expected)


def test_served_state_of_other_networks_is_all_of_it():
    net = make()
    assert set(net.served_state()) == set(net.state_dict())
    assert net.compnet.served_settings() == net.compnet.settings
