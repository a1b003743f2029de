"""One synthetic subject, imaged by cine or by late enhancement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..acquisition import acquire, draw_scanner
from ..volume import SyntheticVolume
from . import sequences
from .anatomy import GROUPS, draw_anatomy
from .heart import render_heart
from .heart_shape import draw_region
from .scars import Scar, draw_scars
from .thorax import render_thorax

PHASES = ("ED", "ES")
"""Cardiac phases of a subject."""

_LATE_ENHANCEMENT_STUDY = 1  # keeps its subjects apart from those of cine


@dataclass(frozen=True)
class SyntheticSubject:
    """One synthetic subject, imaged by cine."""

    images: dict[str, NDArray[np.int16]]  # of each phase, (W, H, D)
    labels: dict[str, NDArray[np.uint8]]  # of each phase, (W, H, D)
    spacing: tuple[float, float, float]  # (W, H, D), in mm
    frames: dict[str, int]  # number of the cine frame of each phase, counted from 1
    group: str  # one of GROUPS
    num_frames: int  # of the cine series, which is not stored
    height: float  # of the body, in cm
    weight: float  # in kg


def synthesize_subject(seed: int, group: str = "NOR") -> SyntheticSubject:
    """Image one synthetic subject of a diagnosis group by cine. The result depends on the arguments only."""
    examination = _Examination(sequences.CINE, seed, group)
    volumes = {phase: examination.scan(phase) for phase in PHASES}
    rng = examination.rng
    num_frames = int(rng.integers(20, 36))
    height = float(np.clip(rng.normal(171, 9), 145, 200))
    return SyntheticSubject(
        images={phase: volume.image for phase, volume in volumes.items()},
        labels={phase: volume.labels for phase, volume in volumes.items()},
        spacing=examination.anatomy.spacing,
        frames={"ED": 1, "ES": round(num_frames * float(rng.uniform(0.32, 0.44)))},
        group=group,
        num_frames=num_frames,
        height=round(height, 1),
        weight=round(float(np.clip(rng.normal(25.5, 4.0), 17, 40)) * (height / 100) ** 2, 1),
    )


def synthesize_late_enhancement(seed: int, group: str = "NOR") -> SyntheticVolume:
    """
    Image one synthetic subject by late enhancement, at end-diastole. The result depends on the arguments only.

    The group decides on the scars. The subject is not that of :func:`synthesize_subject` with the same seed.
    """
    examination = _Examination(sequences.LATE_ENHANCEMENT, seed, group, _LATE_ENHANCEMENT_STUDY)
    return examination.scan("ED", draw_scars(examination.rng, examination.anatomy, group))


class _Examination:
    """A subject in the scanner: all that its volumes share."""

    def __init__(self, sequence: sequences.Sequence, seed: int, group: str, *study: int) -> None:
        if group not in GROUPS:
            raise ValueError(f"group must be one of {GROUPS}, got {group!r}.")
        if seed < 0:
            raise ValueError(f"seed must not be negative, got {seed}.")
        source = np.random.SeedSequence([seed, GROUPS.index(group), *study])
        for_anatomy, for_thorax, for_heart, self._for_acquisition, self.rng = map(
            np.random.default_rng, source.spawn(5)
        )
        self.anatomy = draw_anatomy(for_anatomy, group, sequence)
        self._thorax = render_thorax(for_thorax, self.anatomy)
        self._region = draw_region(for_heart, self.anatomy)
        _, width, height = self.anatomy.shape
        self._scanner = draw_scanner(
            self._for_acquisition, width, height, blur=sequence.blur, noise=sequence.noise, gain=sequence.gain
        )

    def scan(self, phase: str, scars: Sequence[Scar] = ()) -> SyntheticVolume:
        """Image the heart in one phase."""
        signal, labels = render_heart(self.anatomy, self._region, self._thorax, phase, scars)
        image = acquire(self._for_acquisition, signal, self._scanner)
        return SyntheticVolume.of(image, labels, self.anatomy.spacing)
