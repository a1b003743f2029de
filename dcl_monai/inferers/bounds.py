"""Bounds of Dice and volume for what was segmented, where the model carries them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dcl_monai.metrics import structure_bounds


def bounds_of_frames(
    bounds: Mapping[str, Any],
    classes: Sequence[str],
    confidence: Sequence[Sequence[float]],
    volumes: Mapping[str, Sequence[float]],
) -> tuple[dict[str, list[dict[str, Any]]], list[str]]:
    """
    Bounds of every structure in every frame, and where the image is unlike all that calibrated them.

    Args:
        bounds: of the model, see :func:`~dcl_monai.metrics.calibrate_bounds`.
        classes: class names, background first.
        confidence: for every frame, Dice that the probabilities promise of every class.
        volumes: structure -> volume in ml per frame.
    """
    found: dict[str, list[dict[str, Any]]] = {}
    notes = []
    for j, name in enumerate(classes[1:], start=1):
        for frame, promised in enumerate(confidence):
            bound = structure_bounds(bounds, name, promised[j], volumes[name][frame])
            if bound is None:
                continue
            unlike = bound.pop("unlike")
            where = f"frame {frame + 1}: " if len(confidence) > 1 else ""
            notes += [f"{where}{name}: bounds may not hold ({words})" for words in unlike]
            found.setdefault(name, []).append({"confidence": round(promised[j], 4), **bound})
    return found, notes


def bounds_words(found: Mapping[str, Sequence[Mapping[str, Any]]], level: float) -> str:
    """Bounds of the first frame in a line, for the contact sheet; empty without any."""
    words = [
        f"{name}: Dice \N{GREATER-THAN OR EQUAL TO} {frames[0]['dice']:.2f}, "
        f"{frames[0]['volume_ml'][0]:.3g}-{frames[0]['volume_ml'][1]:.3g} ml"
        for name, frames in found.items()
    ]
    return f"{level:.0%}: " + "; ".join(words) if words else ""
