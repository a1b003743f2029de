"""Tests of the masks that conditions carry over to the target."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from dcl_monai.losses import ConditionalCompatibleLoss, DeepSupervision, class_probabilities
from dcl_monai.networks import CompNet, MaskPropagation

M = 3
FORMS = {"2D": (2, 8, (16, 24)), "3D": (3, 4, (8, 12, 8)), "anisotropic": (3, [4, 4, 1], (8, 12, 5))}
every_form = pytest.mark.parametrize(("dims", "reduction", "size"), FORMS.values(), ids=FORMS)


def inputs(size, channels=1, batch=2):
    generator = torch.Generator().manual_seed(1)
    image = torch.randn(batch, channels, *size, generator=generator)
    cond_image = torch.randn(batch, M * channels, *size, generator=generator)
    return image, cond_image, (torch.rand(batch, M, *size, generator=generator) > 0.5).float()


@every_form
@pytest.mark.parametrize("channels", [1, 2])
class TestMasks:
    def make(self, dims, reduction, channels):
        torch.manual_seed(0)
        return MaskPropagation(dims, channels, reduction)

    def test_between_the_least_and_the_most(self, dims, reduction, size, channels):
        image, cond_image, cond_mask = inputs(size, channels)
        carried = self.make(dims, reduction, channels)(image, cond_image, cond_mask)
        assert carried.shape == cond_mask.shape
        assert 0 < carried.min() < carried.max() < 1

    @pytest.mark.parametrize("value", [0.0, 0.3, 1.0])
    def test_what_is_the_same_everywhere_stays(self, dims, reduction, size, channels, value):
        image, cond_image, cond_mask = inputs(size, channels)
        carried = self.make(dims, reduction, channels)(image, cond_image, torch.full_like(cond_mask, value))
        torch.testing.assert_close(carried, torch.full_like(cond_mask, value))

    def test_every_class_by_its_own_condition(self, dims, reduction, size, channels):
        net = self.make(dims, reduction, channels)
        image, cond_image, cond_mask = inputs(size, channels)
        before = net(image, cond_image, cond_mask)
        cond_image[:, -channels:] = torch.randn_like(cond_image[:, -channels:])
        after = net(image, cond_image, cond_mask)
        torch.testing.assert_close(after[:, :-1], before[:, :-1])
        assert not torch.allclose(after[:, -1], before[:, -1])

    def test_items_of_a_batch_do_not_meet(self, dims, reduction, size, channels):
        net = self.make(dims, reduction, channels)
        tensors = inputs(size, channels)
        alone = torch.cat([net(*(tensor[k : k + 1] for tensor in tensors)) for k in range(2)])
        torch.testing.assert_close(net(*tensors), alone)

    def test_gradients_reach_encoder_and_mask(self, dims, reduction, size, channels):
        net = self.make(dims, reduction, channels)
        image, cond_image, cond_mask = inputs(size, channels)
        cond_mask.requires_grad_()
        net(image, cond_image, cond_mask).square().sum().backward()
        assert (cond_mask.grad > 0).all()
        assert all(p.grad.isfinite().all() and p.grad.abs().sum() > 0 for name, p in net.named_parameters())

    def test_script(self, dims, reduction, size, channels):
        net = self.make(dims, reduction, channels).eval()
        tensors = inputs(size, channels)
        torch.testing.assert_close(torch.jit.script(net)(*tensors), net(*tensors))


@pytest.mark.parametrize("reduction", [0, 1, 3, 12, -4, [1, 1], [4, 3]])
def test_factors_are_powers_of_two(reduction):
    with pytest.raises(ValueError, match="powers of two"):
        MaskPropagation(2, 1, reduction)


def blobs(number, generator):
    """Images with a bright and a dark square at random places, and the mask of the bright one."""
    images, masks = 0.1 * torch.randn(number, 1, 32, 32, generator=generator), torch.zeros(number, 1, 32, 32)
    for k in range(number):
        places = torch.randperm(9, generator=generator)[:2]
        for value, place in zip((1.0, -1.0), places.tolist(), strict=True):
            x, y = 3 + 9 * (place // 3), 3 + 9 * (place % 3)
            images[k, 0, x : x + 8, y : y + 8] += value
            masks[k, 0, x : x + 8, y : y + 8] += value > 0
    return images, masks


def test_learns_to_find_what_the_condition_shows_elsewhere():
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    net = MaskPropagation(2, reduction=4)
    optimizer = torch.optim.Adam(net.parameters(), 0.01)

    def step():
        (image, mask), (cond_image, cond_mask) = blobs(16, generator), blobs(16, generator)
        carried = net(image, cond_image, cond_mask).clamp(1e-4, 1 - 1e-4)
        found = carried > 0.5
        return F.binary_cross_entropy(carried, mask), 2 * (found * mask).sum() / (found.sum() + mask.sum())

    _, before = step()
    for _ in range(30):
        loss, _ = step()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    _, after = step()
    assert before < 0.7
    assert after > 0.78


class TestCompNet:
    BASIC = {"backbone": "BasicUNet", "num_classes": M, "spatial_dims": 2, "features": (4, 4, 8, 8, 8, 4)}
    DYN = {
        "backbone": "DynUNet",
        "num_classes": M,
        "kernel_size": [3, 3, 3],
        "strides": [1, 2, 2],
        "upsample_kernel_size": [2, 2],
        "filters": [4, 6, 8],
        "deep_supervision": True,
        "deep_supr_num": 1,
    }

    @pytest.mark.parametrize(("kwargs", "dims", "heads"), [(BASIC, 2, 2), (DYN, 2, 3), (DYN, 3, 3)])
    def test_one_more_head_in_training_alone(self, kwargs, dims, heads):
        size = (20, 33, 9)[:dims]
        net = CompNet(**kwargs | {"spatial_dims": dims}, propagation=4)
        tensors = inputs(size)
        assert net(*tensors).shape == (2, heads, 2 * M, *size)
        assert net.eval()(*tensors).shape == (2, 2 * M, *size)

    def test_the_head_holds_the_carried_masks(self):
        net = CompNet(**self.BASIC, propagation=8)
        image, cond_image, cond_mask = inputs((16, 32))
        carried = net.propagation(image, cond_image, cond_mask) + 0.001
        prob = class_probabilities(net(image, cond_image, cond_mask)[:, -1], M)
        torch.testing.assert_close(prob, carried / carried.sum(1, keepdim=True))

    def test_conditional_images_count_by_what_they_carry_over_alone(self):
        net = CompNet(**self.BASIC, propagation=8, zero_conditions=False).eval()
        image, cond_image, cond_mask = inputs((16, 32))
        blank = torch.zeros_like(cond_mask)
        torch.testing.assert_close(net(image, cond_image, blank), net(image, cond_image.flip(0), blank))
        assert not torch.allclose(net(image, cond_image, cond_mask), net(image, cond_image.flip(0), cond_mask))

    def test_starts_as_the_plain_network(self):
        plain = CompNet(**self.BASIC, conditional=False).eval()
        net = CompNet(**self.BASIC, propagation=8).eval()
        net.load_unconditional(plain.state_dict())
        tensors = inputs((20, 33))
        torch.testing.assert_close(class_probabilities(net(*tensors), M), plain(tensors[0]).softmax(1))

    def test_the_loss_teaches_the_comparison_through_its_head(self):
        net = CompNet(**self.BASIC, propagation=8)
        image, cond_image, cond_mask = inputs((16, 32))
        label = F.one_hot(torch.randint(M, (2, 16, 32)), M).movedim(-1, 1).bool()
        criterion = DeepSupervision(ConditionalCompatibleLoss(M), propagation_weight=0.3)
        criterion(net(image, cond_image, cond_mask), label, cond_mask.bool(), torch.ones_like(label)).backward()
        assert all(parameter.grad.abs().sum() > 0 for parameter in net.propagation.parameters())

    def test_settings_rebuild_it(self):
        net = CompNet(**self.BASIC, propagation=[8, 4]).eval()
        again = CompNet.from_settings(net.served_settings()).eval()
        again.load_state_dict(net.state_dict())
        tensors = inputs((16, 32))
        torch.testing.assert_close(again(*tensors), net(*tensors))

    def test_unconditional_has_none(self):
        assert CompNet(**self.BASIC, propagation=8, conditional=False).propagation is None

    def test_needs_routing(self):
        with pytest.raises(ValueError, match="needs `routing`"):
            CompNet(**self.BASIC, propagation=8, routing=False)

    def test_divides_the_sizes(self):
        with pytest.raises(ValueError, match="`propagation` 8 must divide `divisor` 4"):
            CompNet(**self.BASIC, propagation=8, divisor=4)
