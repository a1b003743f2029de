"""One synthetic subject."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .acquisition import acquire, draw_scanner
from .anatomy import GROUPS, draw_anatomy
from .heart import render_heart
from .heart_shape import draw_region
from .thorax import render_thorax

__all__ = ["GENERATOR_VERSION", "PHASES", "SyntheticSubject", "synthesize_subject"]

GENERATOR_VERSION = 1
"""Raised whenever the same arguments give other voxels; data sets of another version are rewritten."""

PHASES = ("ED", "ES")
"""Cardiac phases of a subject."""


@dataclass(frozen=True)
class SyntheticSubject:
    """
    One synthetic subject.

    Args:
        images: image of each phase (``"ED"``, ``"ES"``), int16, shape ``(W, H, D)``.
        labels: label map of each phase, uint8, shape ``(W, H, D)``, values 0 (background), 1 (RV), 2 (MYO), 3 (LV).
        spacing: voxel size in mm along ``(W, H, D)``.
        frames: number of the cine frame of each phase, counted from 1.
        group: diagnosis group, one of :data:`GROUPS`.
        num_frames: number of frames of the (not stored) cine series.
        height: body height in cm.
        weight: body weight in kg.
    """

    images: dict[str, NDArray[np.int16]]
    labels: dict[str, NDArray[np.uint8]]
    spacing: tuple[float, float, float]
    frames: dict[str, int]
    group: str
    num_frames: int
    height: float
    weight: float


def synthesize_subject(seed: int, group: str = "NOR") -> SyntheticSubject:
    """
    Make one synthetic subject. The result depends on the arguments only.

    Args:
        seed: non-negative seed.
        group: diagnosis group, one of :data:`GROUPS`.

    Returns:
        The subject with the images and label maps of both phases, each of shape ``(W, H, D)``.

    Raises:
        ValueError: when ``group`` is unknown or ``seed`` is negative.
    """
    if group not in GROUPS:
        raise ValueError(f"group must be one of {GROUPS}, got {group!r}.")
    if seed < 0:
        raise ValueError(f"seed must not be negative, got {seed}.")
    source = np.random.SeedSequence([seed, GROUPS.index(group)])
    for_anatomy, for_thorax, for_heart, for_acquisition, for_info = map(np.random.default_rng, source.spawn(5))
    anatomy = draw_anatomy(for_anatomy, group)
    thorax = render_thorax(for_thorax, anatomy)
    region = draw_region(for_heart, anatomy)
    scanner = draw_scanner(for_acquisition, *anatomy.shape[1:])
    images: dict[str, NDArray[np.int16]] = {}
    labels: dict[str, NDArray[np.uint8]] = {}
    for phase in PHASES:
        signal, target = render_heart(anatomy, region, thorax, phase)
        image = acquire(for_acquisition, signal, scanner)
        images[phase] = np.ascontiguousarray(image.transpose(1, 2, 0))
        labels[phase] = np.ascontiguousarray(target.transpose(1, 2, 0))

    num_frames = int(for_info.integers(20, 36))
    height = float(np.clip(for_info.normal(171, 9), 145, 200))
    return SyntheticSubject(
        images=images,
        labels=labels,
        spacing=anatomy.spacing,
        frames={"ED": 1, "ES": round(num_frames * float(for_info.uniform(0.32, 0.44)))},
        group=group,
        num_frames=num_frames,
        height=round(height, 1),
        weight=round(float(np.clip(for_info.normal(25.5, 4.0), 17, 40)) * (height / 100) ** 2, 1),
    )
