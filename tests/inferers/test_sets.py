from __future__ import annotations

import copy

import torch
from monai.inferers import SimpleInferer

from dcl_monai.inferers import predict_sets


def test_mean_and_spread_over_sets(conditional_net):
    image = torch.randn(2, 1, 32, 32)
    single = []
    with torch.no_grad():
        for conditional_net.shift in range(3):
            single.append(conditional_net(image))
    conditional_net.shift = 0
    mean, spread = predict_sets(conditional_net, SimpleInferer(), image, num_sets=3)
    torch.testing.assert_close(mean, torch.stack(single).mean(0))
    torch.testing.assert_close(spread, torch.stack(single).std(0, correction=0), atol=1e-6, rtol=1e-4)
    assert spread.max() > 1e-4
    assert conditional_net.shift == 0


def test_one_set_is_the_network_itself(conditional_net):
    image = torch.randn(1, 1, 32, 32)
    mean, spread = predict_sets(conditional_net, SimpleInferer(), image)
    with torch.no_grad():
        assert torch.equal(mean, conditional_net(image))
    assert not spread.any()


def test_mean_of_several_models(conditional_net):
    """Of two networks that are one and the same, nothing differs; of two that are not, the mean is between them."""
    image, other = torch.rand(1, 1, 32, 32), copy.deepcopy(conditional_net)
    with torch.no_grad():
        for weight in other.parameters():
            weight.mul_(1.1)
    single = [predict_sets(net, SimpleInferer(), image)[0] for net in (conditional_net, other)]
    mean, spread = predict_sets([conditional_net, other], SimpleInferer(), image)
    assert torch.allclose(mean, (single[0] + single[1]) / 2, atol=1e-6)
    assert torch.allclose(spread, (single[0] - single[1]).abs() / 2, atol=1e-4)
    assert predict_sets([conditional_net] * 2, SimpleInferer(), image)[1].max() < 1e-4
