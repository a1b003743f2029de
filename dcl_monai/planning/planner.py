"""From the fingerprint of a data set and a memory budget to a plan."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from dcl_monai.transforms import Intensity
from dcl_monai.utils import DataError

from .fingerprint import Fingerprint
from .memory import training_bytes
from .rules import Topology, coarsen, features, initial_patch, is_anisotropic, pooling, shrink, target_spacing

GB = 1e9
COVERED = 0.05
"""A batch holds no more than this part of all voxels, so that no epoch is over in a few steps."""
SMALLEST_BATCH = 2
FEWEST_STAGES = 3
"""DynUNet's least."""
MOST_HEADS = 2
"""Heads of deep supervision beside the finest: each costs memory at full size, a third would weigh less than 7%."""
SMALL_IMAGE = {2: 112**2, 3: 64**3}
"""Voxels of the median image in a small training."""
SMALL_PATCH = 40**3
"""Voxels of a patch in a small training of volumes."""
SMALL_EDGE = 64
"""Edge of a slice that is not cut further."""
SMALL_BATCH = {2: 8, 3: 2}
BANK_SIZE = 16
"""Images per class in the conditional bank, as in the bundles."""


@dataclass(frozen=True)
class Plan:
    """All that is decided."""

    dims: int
    """2 for a network of slices, 3 for one of volumes."""
    spacing: tuple[float, ...]
    """Voxel size in mm of the network's grid, of all three axes; in 2D the last one stays as it is."""
    median_shape: tuple[int, ...]
    """Median size of the images on that grid."""
    topology: Topology
    """Patch and network."""
    batch_size: int
    """Items per step."""
    bank_size: int
    """Images per class in the conditional bank."""
    intensity: Intensity | list[Intensity | None] | None
    """``None`` (every image gets mean 0 and variance 1), or a mapping with ``clip``, ``mean`` and ``std``; of
    several channels a list with one of the two for each, unless all are ``None``."""
    memory: int
    """Bytes that training takes at its peak, as estimated."""
    budget: int
    """Bytes that it may take."""
    device: str
    """``"cpu"`` or ``"cuda"``."""
    batch_reason: str
    """What decided the batch size."""
    cut: int = 0
    """Training images, of which annotated voxels lie outside the patch of a slice."""
    small: bool = False
    """Whether it is one for CPUs: a coarser grid and a smaller network."""

    @property
    def network(self) -> dict[str, Any]:
        """Arguments of :class:`~dcl_monai.networks.CompNet`, but for the number of classes."""
        return network_arguments(self.topology, self.small)


def network_arguments(topology: Topology, small: bool = False) -> dict[str, Any]:
    """Arguments of :class:`~dcl_monai.networks.CompNet` for a topology, but for the number of classes."""
    dims, stages = len(topology.patch_size), len(topology.strides)
    return {
        "backbone": "DynUNet",
        "condition_scale": 0.1,
        "divisor": list(topology.divisor),
        "spatial_dims": dims,
        "kernel_size": [list(kernel) for kernel in topology.kernels],
        "strides": [list(stride) for stride in topology.strides],
        "upsample_kernel_size": [list(stride) for stride in topology.strides[1:]],
        "filters": features(stages, dims, small),
        "deep_supervision": True,
        "deep_supr_num": 1 if small else max(1, min(stages - 3, MOST_HEADS)),
    }


def planned_dims(fingerprint: Fingerprint) -> int:
    """2 where the last axis is so coarse and short that the images are stacks of slices, 3 elsewhere."""
    spacing, shape = np.median(fingerprint.spacings, axis=0), np.median(fingerprint.shapes, axis=0)
    return 2 if shape[2] == 1 or (is_anisotropic(spacing, shape) and int(np.argmax(spacing)) == 2) else 3


def make_plan(
    fingerprint: Fingerprint,
    memory_gb: float,
    device: str,
    dims: int | None = None,
    ct: bool | None = None,
    small: bool = False,
) -> Plan:
    """
    Plan a training.

    Args:
        fingerprint: of the data.
        memory_gb: memory of the device that trains, in units of 10^9 bytes.
        device: what trains, ``"cpu"`` or ``"cuda"``.
        dims: 2 or 3; default: :func:`planned_dims`.
        ct: whether grey values are Hounsfield units; default: whether those of a channel look like it.
        small: plan for CPUs, see :class:`Plan`.

    Raises:
        DataError: when the images are too small for a U-Net, or the memory for the smallest patch.
    """
    dims = planned_dims(fingerprint) if dims is None else dims
    target = target_spacing(fingerprint.spacings, fingerprint.shapes)
    if small:
        target[:dims] = coarsen(target[:dims], usual_extent(fingerprint, dims), SMALL_IMAGE[dims])
    resampled = np.rint(fingerprint.shapes * fingerprint.spacings / target)
    if dims == 2:
        resampled[:, 2] = fingerprint.shapes[:, 2]  # slices stay where they are
    median = np.median(resampled, axis=0)
    grid = [float(length) for length in target[:dims]]
    # slices are cropped about their middle and not tiled: what is annotated must fit
    needed = 2 * np.ceil(fingerprint.reaches / target)[:, :dims]
    wanted = np.maximum(median[:2], needed.max(axis=0)) if dims == 2 else median
    if small and dims == 2:
        wanted = np.maximum(usual_extent(fingerprint, 2) / target[:2], needed.max(axis=0))
        wanted = np.maximum(wanted, np.minimum(median[:2], SMALL_EDGE))
    topology = pooling(grid, initial_patch(grid, wanted))
    if small and dims == 3:
        sizes = shrinking(grid, topology, wanted)
        topology = next((t for t in sizes if np.prod(t.patch_size) <= SMALL_PATCH), topology)
    if len(topology.strides) < FEWEST_STAGES:
        raise DataError(
            f"the images have a median size of {as_size(list(median))} voxels of {as_size(grid)} mm: too small for a "
            f"U-Net of {FEWEST_STAGES} stages. Give finer images, or set `pixdim` and `spatial_size` of the bundle "
            "yourself."
        )
    classes, bank, budget = len(fingerprint.classes), BANK_SIZE, int(memory_gb * GB)
    channels = len(fingerprint.channels)

    @cache
    def memory(topology: Topology, batch: int) -> int:
        arguments = {"num_classes": classes, "image_channels": channels, **network_arguments(topology, small)}
        return training_bytes(arguments, topology.patch_size, batch, bank, device)

    if memory(topology, SMALLEST_BATCH) > budget:
        # the largest that fits, found by halving: counting takes half a second, and there may be fifty of them
        sizes = shrinking(grid, topology, wanted)
        place = bisect_left(sizes, True, key=lambda size: memory(size, SMALLEST_BATCH) <= budget)
        topology = sizes[min(place, len(sizes) - 1)]
    least = memory(topology, SMALLEST_BATCH)
    if least > budget:
        raise DataError(
            f"--memory {memory_gb:g}: even a patch of {as_size(topology.patch_size)} voxels, two at a time, takes "
            f"{least / GB:.2g} GB with {classes} classes. Give more memory."
        )
    each = memory(topology, SMALLEST_BATCH + 1) - least
    fitting = SMALLEST_BATCH + (budget - least) // each
    covering = round(COVERED * len(fingerprint.shapes) * median.prod() / np.prod(topology.patch_size, dtype=float))
    if small:  # an epoch has as many steps as the schedule says, however few the images
        covering = SMALL_BATCH[dims]
    batch = max(SMALLEST_BATCH, min(fitting, covering))
    limits = {fitting: "limited by memory", covering: "small" if small else f"limited to {COVERED:.0%} of the data"}
    return Plan(
        dims=dims,
        spacing=tuple(round(float(length), 5) for length in target),
        median_shape=tuple(int(n) for n in np.rint(median)),
        topology=topology,
        batch_size=int(batch),
        bank_size=bank,
        intensity=planned_intensity(fingerprint, ct),
        memory=int(least + (batch - SMALLEST_BATCH) * each),
        budget=budget,
        device=device,
        batch_reason=limits.get(batch, f"the least, though more than {COVERED:.0%} of the data"),
        cut=int((needed > topology.patch_size).any(axis=1).sum()) if dims == 2 else 0,
        small=small,
    )


def usual_extent(fingerprint: Fingerprint, dims: int) -> np.ndarray:
    """
    Size in mm of the part of an image that a small training looks at.

    In 2D that is what is annotated and half as much about it, at most the median image; a 3D training cuts patches from
    whole images.
    """
    whole = np.median(fingerprint.shapes * fingerprint.spacings, axis=0)[:dims]
    if dims == 3:
        return whole
    needed = 2 * fingerprint.reaches.max(axis=0)[:dims]
    return np.maximum(np.minimum(whole, 1.5 * needed), needed) if needed.all() else whole


def shrinking(spacing: Sequence[float], topology: Topology, shape: Sequence[float]) -> list[Topology]:
    """A patch and all smaller ones that a U-Net can be made for, in nnU-Net's order."""
    sizes: list[Topology] = []
    while len(topology.strides) >= FEWEST_STAGES and min(topology.patch_size) > 0:
        sizes.append(topology)
        topology = shrink(spacing, topology, shape)
    return sizes


def planned_intensity(fingerprint: Fingerprint, ct: bool | None) -> Intensity | list[Intensity | None] | None:
    """How the intensities of all channels are scaled."""
    kinds = fingerprint.looks_like_ct if ct is None else [ct] * len(fingerprint.channels)
    planned = [intensity_of(fingerprint, kind, channel) for channel, kind in enumerate(kinds)]
    return planned[0] if len(planned) == 1 else planned if any(planned) else None


def intensity_of(fingerprint: Fingerprint, ct: bool, channel: int = 0) -> Intensity | None:
    """How intensities are scaled: CT by the numbers of the data set, anything else image by image."""
    if not ct:
        return None
    if not fingerprint.foreground.size:
        raise DataError("no training image shows a structure, so CT values cannot be measured: use --modality mr.")
    found = {name: round(value, 4) for name, value in fingerprint.statistics(channel).items()}
    if not found["std"] > 0 or not found["percentile_00_5"] < found["percentile_99_5"]:
        raise DataError(f"all annotated voxels have the value {found['mean']:g}: this is not CT. Use --modality mr.")
    clip = [found["percentile_00_5"], found["percentile_99_5"]]
    return {"clip": clip, "mean": found["mean"], "std": found["std"]}


def as_size(numbers: Sequence[float]) -> str:
    """A size in words: ``1.5 x 1.5``."""
    return " x ".join(f"{number:.4g}" for number in numbers)
