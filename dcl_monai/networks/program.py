"""A trained network as a program of ``torch.export``, which is to follow TorchScript."""

from __future__ import annotations

import logging
from pathlib import Path

import torch
from torch.fx.experimental import _config as tracing

from .dclnet import DCLNet
from .model_file import load_model, load_weights

logger = logging.getLogger(__name__)


def make_program(network: DCLNet, image: torch.Tensor) -> torch.export.ExportedProgram:
    """
    Export a network for images of any batch size and any size.

    Args:
        network: the network.
        image: an image, (B, C, H, W[, D]) with B of at least 2.
    """
    free = dict.fromkeys([0, *range(2, image.dim())], torch.export.Dim.DYNAMIC)
    # otherwise it refuses images with a side below 17
    with tracing.patch(backed_size_oblivious=True):  # type: ignore[attr-defined]
        return torch.export.export(network.eval(), (image,), dynamic_shapes=(free,))


def save_program(network: DCLNet, model_file: str | Path, filepath: str | Path) -> None:
    """
    Write a trained network as a program.

    Args:
        network: the network that ``inference.json`` describes.
        model_file: its weights and bank.
        filepath: the file to write, ``model.pt2``.
    """
    content = load_model(model_file)
    load_weights(network, content, model_file)
    dims = network.compnet.settings["spatial_dims"]
    image = torch.rand(2, network.compnet.image_channels, *([64] * dims))
    torch.export.save(make_program(network, image), filepath)
    logger.info(f"program of torch.export: {filepath}")
