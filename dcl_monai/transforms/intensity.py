"""Grey values as a network takes them: one setting for training, validation and test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

import torch
from monai.transforms import NormalizeIntensity, ScaleIntensityRange, Transform


class Intensity(TypedDict):
    """Grey values of a data set, by which all its images are clipped and scaled."""

    clip: Sequence[float]
    """Lowest and highest value."""
    mean: float
    """What becomes 0."""
    std: float
    """What becomes 1."""


class StandardizeIntensity(Transform):
    """
    Bring grey values to mean 0 and standard deviation 1, by MONAI's own transforms.

    Args:
        intensity: the grey values of the data set, as for CT; with ``None`` every channel is normalised by its own mean
            and deviation. A list has one of the two for every channel, as for PET and CT.

    Examples:
        >>> ct = StandardizeIntensity({"clip": [-100.0, 300.0], "mean": 50.0, "std": 25.0})
        >>> ct(torch.tensor([[-1000.0, 50.0, 75.0]])).tolist()
        [[-6.0, 0.0, 1.0]]
    """

    def __init__(self, intensity: Intensity | Sequence[Intensity | None] | None = None) -> None:
        self.channels: list[StandardizeIntensity] = []
        self.scale: Transform
        if isinstance(intensity, Sequence):
            self.channels = [StandardizeIntensity(of_channel) for of_channel in intensity]
        elif intensity is None:
            self.scale = NormalizeIntensity(channel_wise=True)
        else:
            (low, high), mean, std = intensity["clip"], intensity["mean"], intensity["std"]
            self.scale = ScaleIntensityRange(low, high, (low - mean) / std, (high - mean) / std, clip=True)

    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        """
        Args:
            image: grey values, C[HWD].
        """
        if self.channels:
            result = image.clone()
            for k, scale in enumerate(self.channels):
                result[k : k + 1] = scale(image[k : k + 1])
            return result
        scaled: torch.Tensor = self.scale(image)
        return scaled
