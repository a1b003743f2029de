"""Drawing scribbles inside full masks, as an annotator would: one thin curve along the middle of each structure."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import nibabel as nib
import numpy as np
import torch
from scipy import ndimage
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import dijkstra
from tqdm import tqdm

from dcl_monai.candidates import candidate_sets, from_bits
from dcl_monai.datalist.items import SPECIFICATION, Item, annotations_of, decided_classes, unhidden
from dcl_monai.transforms import LoadCandidatesd
from dcl_monai.transforms.files import read_image
from dcl_monai.utils import DataError

BACKGROUND = 0
BLANK = 255
"""Value of a voxel off every stroke; with more classes than that, the first value that is no class."""

SIZEABLE = 0.25  # parts of a structure of at least this share of the largest one get a stroke of their own
CORE = 0.35  # strokes keep away from the border: at least this share of the greatest depth
EXTENT = (0.6, 1.0)  # share of the longest curve that is drawn
MEANDER = 4.0  # how much dearer than the cheapest a random place may be; 0 gives the same curve every time
THICK = 4.0  # depth of structures in which a stroke may be two pixels wide
SMOOTHING = 1.5  # standard deviation, in pixels
# Strokes around the foreground, near and far, in shares of the shorter side of the slice. Near ones alone leave a
# network free to draw what it likes in the rest of the image.
BACKGROUND_DISTANCES = ((0.05, 0.12), (0.2, 0.3), (0.4, 0.5))
BACKGROUND_BAND = 0.025  # half the width of the band in which it runs, likewise
EIGHT_NEIGHBOURS = np.ones((3, 3), dtype=bool)


def scribble_items(
    items: Sequence[Item], num_classes: int, folder: str | Path, seed: int = 0
) -> tuple[list[Item], np.ndarray]:
    """
    Replace the labels of fully labelled items by scribbles, written as NIfTI files with the geometry of the images.

    The files are put in place when all of them are drawn. The strokes of a class in an image depend on the seed, the
    image's name and its mask alone, not on the machine nor on the other images and classes.

    Returns:
        the items, each with the strokes of the classes that it showed as its only annotation; and the mean share of
        each class that the strokes cover, over the items that show it, shape (m,) (NaN for a class nobody shows).
    """
    folder = Path(folder).resolve()
    blank = BLANK if num_classes <= BLANK else num_classes
    files = [folder / f"{name}.nii.gz" for name in file_names(items)]
    labels = [annotation["label"] for item in items for annotation in annotations_of(item)]
    sources = {os.path.realpath(path) for path in (*labels, *(item["image"] for item in items))}
    for path in files:
        if os.path.realpath(path) in sources:
            raise DataError(f"{path}: would be overwritten, but strokes are drawn from it. Choose another output file.")
    result, coverage = [], np.full((len(items), num_classes), np.nan)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as temporary:
        # `disable=None` is silent where the output is no terminal
        for k, item in enumerate(tqdm(items, desc="scribbles", unit="image", disable=None)):
            class_map, affine = load_class_map(item, num_classes)
            shown = decided_classes(item, num_classes)
            strokes = draw_scribbles(class_map, shown, case_seed(seed, item), blank)
            nib.save(nib.Nifti1Image(strokes, affine), Path(temporary, files[k].name))
            size = np.bincount(class_map.ravel(), minlength=num_classes)
            drawn = np.bincount(strokes.ravel(), minlength=num_classes)[:num_classes]
            for j in shown:
                coverage[k, j] = drawn[j] / size[j] if size[j] else np.nan
            result.append(as_scribbled(item, files[k], shown, blank, strokes))
        folder.mkdir(exist_ok=True)
        for path in files:
            os.replace(Path(temporary, path.name), path)
    counted = (~np.isnan(coverage)).sum(0)
    return result, np.where(counted, np.nansum(coverage, 0), np.nan) / np.maximum(counted, 1)


def as_scribbled(item: Item, label: Path, shown: Sequence[int], blank: int, strokes: np.ndarray) -> Item:
    """An item whose only annotation is a file of strokes; ``content`` is a digest of the strokes themselves."""
    content = hashlib.sha256(repr(strokes.shape).encode() + strokes.astype("<u2").tobytes()).hexdigest()
    kept = cast(Item, {key: value for key, value in item.items() if key not in SPECIFICATION})
    return {
        **kept,
        "label": str(label),
        "values": {j: [j] for j in shown},
        "unlabelled": [blank],
        "annotated": list(shown),
        "content": content[:16],
    }


def file_names(items: Iterable[Item]) -> Iterator[str]:
    """A file name for each item, made of the names of its data set and case; no two are the same on any file system."""
    taken: set[str] = set()
    for item in items:
        first = name = re.sub(r"\W+", "_", f"{item.get('dataset', '')}_{item['case']}").strip("_")
        for number in count(2):
            if name.casefold() not in taken:
                break
            name = f"{first}_{number}"
        taken.add(name.casefold())
        yield name


def case_seed(seed: int, item: Item) -> int:
    """A seed for an item, the same on every machine (unlike Python's own ``hash``)."""
    name = f"{seed}/{item.get('dataset', '')}/{item['case']}"
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")


def load_class_map(item: Item, num_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the class index of every voxel, (H, W[, D]), as the item's label files show it, and the image's affine."""
    loaded: Any = {**unhidden(item), "image": read_image(item["image"])}
    label = LoadCandidatesd("label", num_classes)(loaded)["label"]
    if label.ndim not in (3, 4):
        raise DataError(
            f"{item['label']}: strokes are drawn in 2D and 3D images, but this has {label.ndim - 1} dimensions."
        )
    members = [from_bits(bits) for bits in candidate_sets(label)]
    codes = torch.as_tensor(label)[0].numpy().astype(np.int64)
    if any(len(members[code]) != 1 for code in np.unique(codes)):
        raise DataError(f"{item['label']}: strokes can be drawn in full labels only, but some voxels have no class.")
    return np.array([classes[0] for classes in members])[codes], label.affine.numpy()


def draw_scribbles(class_map: np.ndarray, shown: Sequence[int], seed: int, blank: int = BLANK) -> np.ndarray:
    """
    Draw strokes of some classes of a map of class indices (H, W[, D]), slice by slice along the last axis.

    Those of the background, class 0, run around the others. The result is the class index on the strokes and ``blank``
    elsewhere, in uint8, or uint16 if need be.
    """
    volume = class_map if class_map.ndim == 3 else class_map[..., None]
    strokes = np.full(volume.shape, blank, dtype=np.uint8 if blank <= BLANK else np.uint16)
    for k in range(volume.shape[-1]):
        for j in shown:
            mask = volume[..., k] == j
            if mask.any():
                rng = np.random.default_rng([seed, k, j])
                for part in bands_around(~mask, rng) if j == BACKGROUND else [mask]:
                    strokes[draw_strokes(part, rng), k] = j
    return strokes.reshape(class_map.shape)


def bands_around(foreground: np.ndarray, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """The rings in which the background's strokes run: around the foreground, or around somewhere if there is none."""
    side = min(foreground.shape)
    if not foreground.any():
        place = tuple(int(rng.uniform(0.4, 0.6) * size) for size in foreground.shape)
        foreground = np.zeros_like(foreground)
        foreground[place] = True
    distance = ndimage.distance_transform_edt(~foreground)
    for number, near_and_far in enumerate(BACKGROUND_DISTANCES):
        radius = rng.uniform(*near_and_far) * side
        if number == 0:  # where the foreground fills the slice, the stroke runs through the middle of what is left
            radius = max(1.0, min(radius, distance.max() / 2))
        half = max(1.0, min(BACKGROUND_BAND * side, radius / 2))
        if radius + half <= distance.max() or number == 0:
            yield (distance > 0) & (abs(distance - radius) <= half)


def draw_strokes(mask: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw a stroke in each sizeable part of a 2D mask."""
    parts, _ = ndimage.label(mask, EIGHT_NEIGHBOURS)
    sizes = np.bincount(parts.ravel())[1:]
    result = np.zeros_like(mask)
    for part, window in enumerate(ndimage.find_objects(parts), start=1):
        if sizes[part - 1] >= SIZEABLE * sizes.max():
            result[window] |= draw_stroke(parts[window] == part, rng)
    return result


def draw_stroke(part: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw one curve, one or two pixels wide, along the middle of a connected 2D mask."""
    depth = ndimage.distance_transform_edt(np.pad(part, 1))[1:-1, 1:-1]
    core = largest_part(depth >= CORE * depth.max())
    core = largest_part(cut_open(core, rng))
    noise = ndimage.gaussian_filter(rng.random(part.shape), 3.0)
    noise = (noise - noise.min()) / max(float(np.ptp(noise)), 1e-6)
    path = longest_path(core, (depth.max() / np.maximum(depth, 1.0)) ** 2 * (1.0 + MEANDER * noise), rng)
    length = max(1, round(len(path) * rng.uniform(*EXTENT)))
    start = rng.integers(len(path) - length + 1)
    path = path[start : start + length]
    # steps of at most one pixel stay such when smoothed and rounded, so the curve remains connected
    smooth = np.floor(ndimage.gaussian_filter1d(path.astype(float), SMOOTHING, axis=0, mode="nearest") + 0.5).astype(
        int
    )
    rows, columns = (smooth if part[tuple(smooth.T)].all() else path).T
    stroke = np.zeros_like(part)
    stroke[rows, columns] = True
    if depth.max() >= THICK and rng.random() < 0.5:
        stroke = ndimage.binary_dilation(stroke, np.ones((2, 2), dtype=bool)) & part
    return stroke


def largest_part(mask: np.ndarray) -> np.ndarray:
    """The largest connected part of a 2D mask that is not empty."""
    parts, _ = ndimage.label(mask, EIGHT_NEIGHBOURS)
    largest: np.ndarray = parts == np.argmax(np.bincount(parts.ravel())[1:]) + 1
    return largest


def cut_open(mask: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Cut a ring open at a random angle, so that the longest path runs all the way round."""
    holes = ndimage.binary_fill_holes(mask) & ~mask
    if not holes.any():
        return mask
    rows, columns = np.indices(mask.shape) - np.mean(np.nonzero(largest_part(holes)), axis=1).reshape(2, 1, 1)
    angle = rng.uniform(0, 2 * np.pi)
    along, across = rows * np.sin(angle) + columns * np.cos(angle), rows * np.cos(angle) - columns * np.sin(angle)
    opened: np.ndarray = mask & ~((along > 0) & (abs(across) <= 1))
    return opened if opened.any() else mask


def longest_path(mask: np.ndarray, cost: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """
    Find the cheapest path between two pixels of a connected 2D mask that are far apart, (L, 2) rows and columns.

    ``cost`` is that of a step in each pixel; ``rng`` chooses where the search begins.
    """
    pixels = np.argwhere(mask)
    index = np.full(np.add(mask.shape, 2), -1)  # a border of -1 stands for "outside"
    index[1:-1, 1:-1][mask] = np.arange(len(pixels))
    first, second, weight = [], [], []
    for step in ((0, 1), (1, 0), (1, 1), (1, -1)):
        neighbour = index[tuple((pixels + 1 + step).T)]
        a = np.flatnonzero(neighbour >= 0)
        b = neighbour[a]
        first.append(a)
        second.append(b)
        weight.append(np.hypot(*step) * (cost[tuple(pixels[a].T)] + cost[tuple(pixels[b].T)]) / 2)
    edges = (np.concatenate(weight), (np.concatenate(first), np.concatenate(second)))
    graph = coo_matrix(edges, shape=(len(pixels), len(pixels))).tocsr()
    begin = np.argmax(dijkstra(graph, directed=False, indices=rng.integers(len(pixels))))
    distance, before = dijkstra(graph, directed=False, indices=begin, return_predecessors=True)
    path = [int(np.argmax(distance))]
    while path[-1] != begin:
        path.append(int(before[path[-1]]))
    return pixels[path]
