"""What a plan needs to know of the data: sizes, voxel sizes, and the grey values of what is annotated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dcl_monai.check import CaseRecord, FileRecord, find_problems
from dcl_monai.check.problems import first_of
from dcl_monai.check.reading import Job, describe_all, files_of, read_arrays, read_datalist
from dcl_monai.datalist.agreement import Agreement
from dcl_monai.datalist.items import Datalist, annotations_of, channels_of
from dcl_monai.utils import DataError

SAMPLES = 4096
"""Grey values that are kept of each image: every image counts the same, however large its structures are."""
AIR = -500.0
"""CT shows air, about -1000 HU; no other modality that we know of has values below this."""


@dataclass(frozen=True)
class Sample:
    """What is kept of an image beside its record."""

    record: FileRecord
    minimum: tuple[float, ...]  # smallest grey value of every channel
    foreground: np.ndarray  # sorted grey values of voxels that are known not to be background, (C, SAMPLES or 0)
    reach: tuple[float, ...]  # per axis, how far from the middle of the image in mm the farthest of these lies


@dataclass(frozen=True)
class Fingerprint:
    """The training images of a datalist."""

    classes: tuple[str, ...]
    """Class names, background first."""
    shapes: np.ndarray
    """Sizes in voxels, (n, 3)."""
    spacings: np.ndarray
    """Voxel sizes in mm, (n, 3)."""
    reaches: np.ndarray
    """How far from the middle of the image in mm something annotated lies, (n, 3)."""
    minima: np.ndarray
    """Smallest grey value of every image and channel, (n, C)."""
    foreground: np.ndarray
    """Grey values of annotated structures, (C, N), as many of every image that has any."""
    channels: tuple[str, ...] = ("image",)
    """Names of the channels."""

    @property
    def looks_like_ct(self) -> list[bool]:
        """For every channel, whether every image has values that only CT has."""
        return [bool((channel <= AIR).all()) for channel in self.minima.T]

    def statistics(self, channel: int = 0) -> dict[str, float]:
        """Mean, standard deviation and percentiles 0.5 and 99.5 of annotated structures in a channel."""
        values = self.foreground[channel]
        low, high = np.percentile(values, [0.5, 99.5])
        return {
            "mean": float(values.mean()),
            "std": float(values.std()),
            "percentile_00_5": float(low),
            "percentile_99_5": float(high),
        }


def take_fingerprint(datalist: Datalist, workers: int = 1, progress: bool = True) -> Fingerprint:
    """
    Read every file of a datalist once, for the check and for the fingerprint.

    Args:
        datalist: the datalist.
        workers: processes that read, see :func:`~dcl_monai.check.inspect_datalist`.
        progress: whether to show a progress bar, if there is a terminal.

    Returns:
        the fingerprint of the training images; validation and test images are only checked.

    Raises:
        DataError: for what `check` refuses, in its words; for a class that fewer than two training subjects show, which
            training with conditions refuses; and for images that are no volumes.
    """
    samples = read_datalist(datalist, sample_files, workers, progress)
    records = describe_all(datalist, {key: sample.record for key, sample in samples.items()})
    refuse(datalist, records)
    training = list({files_of(item): samples[files_of(item)] for item in datalist["training"]}.values())
    for sample in training:
        if len(sample.record.shape) != 3:
            raise DataError(
                f"{sample.record.image}: has shape {sample.record.shape}, but the bundles train on volumes (H, W, D). "
                "Stack the slices of a subject into one file."
            )
    return Fingerprint(
        classes=tuple(datalist["classes"]),
        shapes=np.array([sample.record.shape for sample in training]),
        spacings=np.array([sample.record.spacing for sample in training]),
        reaches=np.array([sample.reach for sample in training]),
        minima=np.array([sample.minimum for sample in training]),
        foreground=np.concatenate([sample.foreground for sample in training], axis=1),
        channels=tuple(channels_of(datalist)),
    )


def refuse(datalist: Datalist, records: Sequence[CaseRecord]) -> None:
    """Raise the first mistake that `check` finds, or that the default method would refuse."""
    problems = find_problems(datalist, records)
    fatal = [p for p in problems if p.severity == "error" or "needs two" in p.message]
    if fatal:
        raise DataError(first_of(fatal))


def sample_files(job: Job) -> Sample:
    """Read the files of an item, see :func:`~dcl_monai.check.reading.read_files`."""
    record, pixels, drawings = read_arrays(job)
    item, num_classes = job
    nothing = Sample(record, (0.0,) * len(pixels), np.zeros((len(pixels), 0), np.float32), (0.0,) * len(record.shape))
    if not pixels.size or any(problem.severity == "error" for problem in record.problems):
        return nothing  # it will be refused
    agreement = Agreement(annotations_of(item), num_classes)
    inside = np.array([not agreement(choices) & 1 for choices in drawings.choices])[drawings.codes]
    minimum = tuple(float(channel.min()) for channel in pixels)
    if not inside.any():
        return Sample(record, minimum, nothing.foreground, nothing.reach)
    values = np.sort(pixels[:, inside], axis=1).astype(np.float32)
    # evenly spaced in their order, so that few of them have the percentiles of all
    chosen = values[:, np.rint(np.linspace(0, values.shape[1] - 1, SAMPLES)).astype(int)]
    return Sample(record, minimum, chosen, reach(inside, record.spacing))


def reach(inside: np.ndarray, spacing: Sequence[float]) -> tuple[float, ...]:
    """How far from the middle of an image, along every axis and in mm, the voxels that are ``inside`` reach."""
    result = []
    for axis, size in enumerate(spacing):
        places = np.flatnonzero(inside.any(axis=tuple(k for k in range(inside.ndim) if k != axis)))
        middle = inside.shape[axis] / 2
        result.append(float(max(middle - places[0], places[-1] + 1 - middle) * size))
    return tuple(result)
