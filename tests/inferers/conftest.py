from __future__ import annotations

from pathlib import Path

import pytest
import torch

from dcl_monai.networks import CompNet, DCLNet


@pytest.fixture
def conditional_net() -> DCLNet:
    torch.manual_seed(0)
    compnet = CompNet(
        "BasicUNet", num_classes=3, zero_conditions=False, spatial_dims=2, features=[4, 4, 8, 8, 8, 4], norm="batch"
    )
    net = DCLNet(compnet)
    net.bank.fill(torch.randn(3, 4, 1, 32, 32), torch.rand(3, 4, 32, 32) > 0.5, torch.ones(3, 4) > 0)
    return net.eval()


@pytest.fixture
def conditional_model(tmp_path, conditional_net) -> Path:
    """A model as training writes it: three classes, another network and another grid than the bundle's default."""
    path = tmp_path / "conditional.pt"
    settings = {"classes": ["background", "MYO", "LV"], "pixdim": [4.0, 4.0, -1], "spatial_size": [32, 32, -1]}
    settings |= {"network": conditional_net.compnet.settings}
    torch.save({"model": conditional_net.state_dict(), "settings": settings}, path)
    return path
