"""Distances between surfaces in millimetres, for classes that are decided everywhere."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from scipy.ndimage import binary_erosion, distance_transform_edt, find_objects
from scipy.spatial import KDTree

from dcl_monai.candidates import known_positive

__all__ = ["compute_surface_distances"]

DENSE = 20
"""Voxels per surface voxel up to which distance transforms are faster than trees of the surface voxels."""


def compute_surface_distances(
    y_pred: torch.Tensor, candidates: torch.Tensor, spacing: Sequence[float], include_background: bool = False
) -> torch.Tensor:
    """
    HD95 and average symmetric surface distance of every class of an image: the numbers of MONAI's metrics.

    Both come from the same distances: 95th percentiles of those one way and the other, of which the larger counts, and
    the mean of both ways together. :py:class:`monai.metrics.SurfaceDistanceMetric` and
    ``HausdorffDistanceMetric`` would each measure anew, and know no class that is not decided everywhere.

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
        ways = surface_distances(pred[j].numpy(), sole[j].numpy(), spacing)
        result[j, 0] = max(np.quantile(way, 0.95) for way in ways)
        result[j, 1] = np.concatenate(ways).mean()
    return result if include_background else result[1:]


def surface_distances(pred: np.ndarray, true: np.ndarray, spacing: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """
    Distance in mm of every surface voxel of one structure from the nearest one of the other, and the other way round.

    Args:
        pred: boolean (\\*spatial), not empty.
        true: the same for the other structure.
        spacing: size of a voxel in mm, along every axis.
    """
    box = find_objects((pred | true).astype(np.uint8))[0]
    edges = [mask[box] & ~binary_erosion(mask[box]) for mask in (pred, true)]
    if edges[0].size < DENSE * sum(edge.sum() for edge in edges):
        there, back = (distance_transform_edt(~edge, sampling=list(spacing)) for edge in reversed(edges))
        return there[edges[0]], back[edges[1]]
    # few voxels far apart: MONAI's way
    points = [np.argwhere(edge) * np.asarray(spacing) for edge in edges]
    return KDTree(points[1]).query(points[0])[0], KDTree(points[0]).query(points[1])[0]
