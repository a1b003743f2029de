from __future__ import annotations

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
