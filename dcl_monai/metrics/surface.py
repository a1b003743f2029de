"""Distances between surfaces in millimetres, for classes that are decided everywhere."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from monai.metrics.utils import get_mask_edges, get_surface_distance

from dcl_monai.candidates import known_positive


def compute_surface_distances(
    y_pred: torch.Tensor, candidates: torch.Tensor, spacing: Sequence[float], include_background: bool = False
) -> torch.Tensor:
    """
    HD95 and average symmetric surface distance of every class of an image: the numbers of MONAI's metrics.

    Both come from the same distances: 95th percentiles of those one way and the other, of which the larger counts, and
    the mean of both ways together. They are measured by MONAI, once: :py:class:`monai.metrics.SurfaceDistanceMetric`
    and ``HausdorffDistanceMetric`` would each measure anew, and know no class that is not decided everywhere.

    Args:
        y_pred: one-hot prediction, N[HWD].
        candidates: boolean candidate sets, N[HWD].
        spacing: size of a voxel in mm, along every axis; a stack of thick slices has its own along the last one.
        include_background: whether class 0 counts.

    Returns:
        shape N2 (HD95, average) in mm: ``nan`` where nothing can be measured, since the class is not decided at every
        voxel or is annotated and absent; ``inf`` where the class is there and the prediction missed it.
    """
    if y_pred.shape != candidates.shape:
        raise ValueError(f"prediction {tuple(y_pred.shape)} and candidates {tuple(candidates.shape)} differ in shape.")
    pred, sole = torch.as_tensor(y_pred).cpu() > 0.5, known_positive(candidates, dim=0).cpu()
    decided = (~candidates.cpu() | sole).flatten(1).all(1)
    result = torch.full((len(pred), 2), torch.nan)
    for j in range(0 if include_background else 1, len(pred)):
        if not decided[j] or not sole[j].any():
            continue
        if not pred[j].any():
            result[j] = torch.inf
            continue
        edges = get_mask_edges(pred[j], sole[j])[:2]
        ways = [get_surface_distance(one, other, spacing=spacing) for one, other in (edges, reversed(edges))]
        numbers = [torch.as_tensor(way).double() for way in ways]
        result[j, 0] = max(way.quantile(0.95) for way in numbers)
        result[j, 1] = torch.cat(numbers).mean()
    return result if include_background else result[1:]
