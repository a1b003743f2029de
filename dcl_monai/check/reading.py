"""Reading the files of a datalist, on all cores, and keeping of each only a small record."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import TypeVar

import nibabel as nib
import numpy as np
import torch
from monai.data.utils import affine_to_spacing
from scipy.ndimage import binary_erosion, generate_binary_structure
from tqdm import tqdm

from dcl_monai.candidates import annotated_classes
from dcl_monai.datalist.agreement import Agreement
from dcl_monai.datalist.dicom import is_dicom_file
from dcl_monai.datalist.items import Annotation, Datalist, Item, Split, annotations_of
from dcl_monai.datalist.splits import SPLITS
from dcl_monai.transforms.drawings import SWAPPED, Drawings, contradiction, read_drawings
from dcl_monai.transforms.files import read_channels, read_label
from dcl_monai.transforms.images import is_picture, pixel_size_of, same_grid, stack_channels
from dcl_monai.utils import DataError
from dcl_monai.utils.images import check_size, check_values

from .records import CaseRecord, FileRecord, Problem, State

WORTHWHILE = 12.0
"""Seconds of work left for which other processes are started: each takes six to import what it needs."""
READ_BY = ("values", "unlabelled", "region", "rater", "annotated_slices", "uncertain_border")
"""Entries of an annotation that decide what its file holds; the others say what of it counts."""
CHUNK = 8
"""Images that a process is given at a time."""

T = TypeVar("T")
Job = tuple[Item, int]
"""An item of a datalist, and the number of classes."""
Files = tuple[str | tuple[str, str], ...]
"""The files of an item: its image, and its labels with the meaning of their values."""


def inspect_datalist(datalist: Datalist, workers: int = 1, progress: bool = True) -> list[CaseRecord]:
    """
    Read every file of a datalist once.

    Args:
        datalist: the datalist.
        workers: processes that read, where there is enough to read for more than one. They are spawned: a script that
            asks for more than one needs the usual ``if __name__ == "__main__"``.
        progress: whether to show a progress bar, if there is a terminal.

    Returns:
        one record per item, in the order of the datalist.
    """
    return describe_all(datalist, read_datalist(datalist, read_files, workers, progress))


def read_datalist(
    datalist: Datalist, read: Callable[[Job], T], workers: int = 1, progress: bool = True
) -> dict[Files, T]:
    """Read every file of a datalist once, by ``read``, and return what it made of each by :func:`files_of`."""
    # An item may be listed several times, each time showing other classes: its files are read once.
    jobs = {files_of(item): (item, len(datalist["classes"])) for split in SPLITS for item in datalist[split]}
    found = tqdm(
        read_all(list(jobs.values()), workers, read),
        desc="checking data",
        unit="image",
        total=len(jobs),
        leave=False,
        disable=None if progress else True,
    )
    return dict(zip(jobs, found, strict=True))


def describe_all(datalist: Datalist, files: Mapping[Files, FileRecord]) -> list[CaseRecord]:
    """Say what every item shows, in the order of the datalist, given what the files hold by :func:`files_of`."""
    return [
        describe(item, files[files_of(item)], datalist["classes"], split)
        for split in SPLITS
        for item in datalist[split]
    ]


def files_of(item: Item) -> Files:
    """What decides the :class:`FileRecord` of an item."""
    labels = ((a["label"], str({key: a.get(key) for key in READ_BY})) for a in annotations_of(item))
    return (item["image"], *item.get("further_images", ()), *labels)


def read_all(jobs: Sequence[Job], workers: int, read: Callable[[Job], T]) -> Iterator[T]:
    """Read the files of all items, in their order, by ``read``."""
    # processor time, since on a busy machine the clock says little about the work
    start, waiting = time.process_time(), iter(jobs)
    for done, job in enumerate(waiting, start=1):
        yield read(job)
        expected = (time.process_time() - start) / done * (len(jobs) - done)
        if workers > 1 and done >= CHUNK and expected > WORTHWHILE:
            break
    left = list(waiting)
    if not left:
        return
    context = get_context("spawn")  # forking a process that runs threads, as torch does, may hang
    with ProcessPoolExecutor(workers, context, torch.set_num_threads, (1,)) as pool:
        try:
            yield from pool.map(read, left, chunksize=CHUNK)
        except BrokenProcessPool as error:
            raise DataError(
                "a process that reads the files was killed, perhaps because memory ran out. Try again with --workers 1."
            ) from error


def read_files(job: Job) -> FileRecord:
    """Read image and labels of an item, given with the number of classes; whatever is wrong goes into the record."""
    return read_arrays(job)[0]


def read_arrays(job: Job) -> tuple[FileRecord, np.ndarray, Drawings]:
    """The same with the arrays: the image (C, H, W[, D]) and what is drawn in it; empty where they are unusable."""
    item, num_classes = job
    annotations = annotations_of(item)
    names = tuple(annotation["label"] for annotation in annotations)
    try:
        channels = read_channels(item)
    except DataError as error:
        # the label is looked at too, so that all mistakes are known at once
        problems = [_error("File cannot be read", error), *_unreadable(names)]
        return FileRecord(item["image"], names, problems=tuple(problems)), np.zeros(0), Drawings(np.zeros(0, int), [])
    image = stack_channels(channels)
    affine = np.asarray(image.affine, dtype=float)
    pixels = np.ascontiguousarray(image.numpy())
    sizes = affine_to_spacing(affine, min(3, pixels.ndim - 1), float, suppress_zeros=False)
    spacing = tuple(round(float(size), 4) for size in sizes)
    problems = list(_image_problems(item["image"], pixels, spacing))
    drawings, mistakes = read_drawings(annotations, image, num_classes)
    if any(mistake.kind == SWAPPED for mistake in mistakes):  # all else follows from it
        problems = []
    problems += [Problem("error", *mistake) for mistake in mistakes]
    readable = not any(problem.severity == "error" for problem in problems)
    record = FileRecord(
        item["image"],
        names,
        shape=pixels.shape[1:],
        spacing=spacing,
        orientation="".join(code or "?" for code in nib.aff2axcodes(affine))[: len(spacing)],
        content=hashlib.sha256(repr(pixels.shape).encode() + pixels.tobytes()).hexdigest(),
        channels=len(pixels),
        resampled=not all(same_grid(channels[0], channel) for channel in channels[1:]),
        unsized="pixel_size" not in item and is_picture(item["image"]) and pixel_size_of(item["image"]) is None,
        constant=bool(pixels.min() == pixels.max()),
        voxels=drawings.counts() if readable else {},
        strokes=strokes_of(annotations, drawings, num_classes) if readable else (0, 0),
        problems=tuple(problems),
    )
    return record, pixels, drawings


def describe(item: Item, files: FileRecord, classes: Sequence[str], split: Split) -> CaseRecord:
    """Say what an item shows, given what its files hold."""
    sets, problems = candidate_counts(item, files, classes)
    seen = [sets.get(1 << j, 0) for j in range(len(classes))]
    everywhere = annotated_classes(sets, len(classes))

    def state(j: int) -> State:
        if not sets or problems:
            return State.UNREAD
        if j in everywhere:
            return State.PRESENT if seen[j] else State.ABSENT
        if seen[j]:
            return State.STROKES
        # a set that holds the background too is what lies outside of the structures drawn
        return State.UNION if any(bits >> j & 1 and not bits & 1 for bits in sets) else State.UNKNOWN

    millilitres = float(np.prod(files.spacing)) / 1000
    return CaseRecord(
        split=split,
        dataset=str(item.get("dataset", "data")),
        case=str(item.get("case", item["image"])),
        subject=str(item["subject"]),
        files=files,
        states=tuple(state(j) for j in range(len(classes))),
        volumes=tuple(count * millilitres for count in seen),
        known=tuple(known_part(sets, j) for j in range(len(classes))),
        problems=problems,
    )


def known_part(sets: Mapping[int, int], index: int) -> float:
    """Part of the voxels of which it is known whether they are of a class, given the number of each candidate set."""
    known = sum(count for bits, count in sets.items() if bits == 1 << index or not bits >> index & 1)
    return known / max(sum(sets.values()), 1)


def strokes_of(annotations: Sequence[Annotation], drawings: Drawings, num_classes: int) -> tuple[int, int]:
    """Count the voxels drawn where values may be ``unlabelled``, and those more than two pixels from an edge."""
    if not any(annotation.get("unlabelled") for annotation in annotations):
        return 0, 0
    agreement = Agreement(annotations, num_classes)
    drawn = np.array(
        [
            any(bool(choice) and agreement.is_drawn(rater, choice[0]) for rater, choice in enumerate(choices))
            for choices in drawings.choices
        ]
    )[drawings.codes]
    plane = generate_binary_structure(2, 1).reshape(3, 3, *[1] * (drawn.ndim - 2))
    return int(drawn.sum()), int(binary_erosion(drawn, plane, iterations=2).sum())


def candidate_counts(
    item: Item, files: FileRecord, classes: Sequence[str]
) -> tuple[dict[int, int], tuple[Problem, ...]]:
    """Count the voxels of every candidate set, and find the voxels whose annotations contradict each other."""
    annotations = annotations_of(item)
    agreement = Agreement(annotations, len(classes))
    sets: dict[int, int] = {}
    for choices, count in files.voxels.items():
        bits = agreement(choices)
        sets[bits] = sets.get(bits, 0) + count
    mistake = contradiction(item["image"], annotations, files.voxels, classes)
    return sets, () if mistake is None else (Problem("error", *mistake),)


def _image_problems(name: str, pixels: np.ndarray, spacing: Sequence[float]) -> Iterable[Problem]:
    """Check an image (C, H, W[, D])."""
    if pixels.ndim > 4:
        yield _error(
            "Several frames or channels",
            f"{name}: holds {pixels.size // max(1, int(np.prod(pixels.shape[1:4])))} frames or channels of size "
            f"{pixels.shape[1:4]} on two axes, but there is one for channels. Save each frame as a file of its own.",
        )
        return
    for k, channel in enumerate(pixels, start=1):
        where = name if len(pixels) == 1 else f"{name}, channel {k}"
        yield from _refused("Image values that cannot be used", check_values, where, channel)
    yield from _refused("Voxel size that cannot be right", check_size, name, pixels.shape[1:], spacing)


def _unreadable(paths: Iterable[str]) -> Iterator[Problem]:
    for path in paths:
        if not is_dicom_file(path):  # its regions are on the image, which cannot be read
            yield from _refused("File cannot be read", read_label, path)


def _refused(kind: str, check: Callable[..., object], *arguments: object) -> Iterator[Problem]:
    """The problem, if a check refuses something."""
    try:
        check(*arguments)
    except DataError as error:
        yield _error(kind, error)


def _error(kind: str, message: object) -> Problem:
    return Problem("error", kind, str(message))
