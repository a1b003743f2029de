"""Keeping preprocessed volumes: in memory as far as it goes, or on disk."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from copy import deepcopy
from enum import Enum
from pathlib import Path
from typing import Any

import monai
import numpy as np
import torch
from monai.data import CacheDataset, Dataset, MetaTensor, PersistentDataset
from monai.transforms import Compose, Transform

import dcl_monai
from dcl_monai.candidates import CANDIDATE_SETS
from dcl_monai.datalist.items import Item, annotations_of
from dcl_monai.utils import DataError
from dcl_monai.utils.files import load_checked, save_atomic

from .slices import plain

logger = logging.getLogger(__name__)

GIGABYTE = 1e9
KEPT_METADATA = (CANDIDATE_SETS, "filename_or_obj")


def cached_dataset(
    data: Sequence[Item],
    transform: Compose,
    memory: float = 0.0,
    cache_dir: str | Path | None = None,
) -> Dataset:
    """
    A dataset of preprocessed volumes that are kept where there is room for them.

    Args:
        data: items of a datalist.
        transform: the preprocessing, without anything random.
        memory: gigabytes of memory for it; volumes beyond it are read and preprocessed whenever they are needed. At 0
            memory stays flat, however many volumes there are.
        cache_dir: folder in which all volumes are kept instead, for this and later runs.
    """
    if cache_dir is not None:
        return DiskCacheDataset(data, transform, cache_dir)
    return MemoryCacheDataset(data, transform, memory) if memory > 0 else Dataset(data, transform)


class MemoryCacheDataset(CacheDataset):
    """MONAI's CacheDataset, filled from the first item on until so many gigabytes of memory are used up."""

    def __init__(self, data: Sequence[Item], transform: Compose, memory: float) -> None:
        self.memory = memory
        super().__init__(data, transform, progress=False)

    def _fill_cache(self, indices: Iterable[int] | None = None) -> list[Any]:
        kept: list[Any] = []
        free = self.memory * GIGABYTE
        for index in range(len(self.data)) if indices is None else indices:
            item = self._load_cache_item(index)
            free -= sum(value.nbytes for value in item.values() if isinstance(value, torch.Tensor))
            if free < 0:
                logger.warning(
                    f"{len(kept)} of {len(self.data)} volumes fit into {self.memory:g} GB. The others are read every "
                    "time, which is slow: set a larger --cache_memory, or a --cache_dir."
                )
                break
            kept.append(item)
        self.cache_num = len(kept)
        return kept


class DiskCacheDataset(PersistentDataset):
    """
    MONAI's PersistentDataset for volumes with candidate sets.

    A file of the cache is named after all it depends on: the item, size and time of its files, the settings of the
    transforms, and the versions of MONAI and of this package. Whatever changes, the volume is made again. Files are
    written in one step, and one that cannot be read all the same is made again, too. They hold tensors and plain
    values only, so reading them runs no code; what was done to a volume is not noted, so it cannot be inverted.

    Nothing in the folder is ever deleted: remove it when it is no longer needed.

    Raises:
        DataError: when the folder cannot be made or written to.
    """

    def __init__(self, data: Sequence[Item], transform: Compose, cache_dir: str | Path) -> None:
        try:
            super().__init__(data, transform, cache_dir, hash_func=item_key, hash_transform=transforms_key)
        except OSError as error:
            raise DataError(f"{cache_dir}: cannot be made ({error}). Set --cache_dir to another folder.") from error

    def _cachecheck(self, item_transformed: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        assert self.cache_dir is not None
        path = self.cache_dir / f"{self.hash_func(item_transformed).decode()}{self.transform_hash}.pt"
        if path.exists():
            try:
                content = load_checked(path, "a cached volume", "it is made again")
                return {key: unpacked(value) for key, value in content.items()}
            except (DataError, AttributeError, KeyError) as error:
                logger.warning(f"{path}: damaged ({type(error).__name__}), made again.")
        volume = self._pre_transform(deepcopy(item_transformed))
        try:
            save_atomic({key: packed(value) for key, value in volume.items()}, path)
        except (OSError, RuntimeError) as error:
            raise DataError(
                f"{path}: cannot be written ({str(error.__cause__ or error)[:120]}). Make room, or set --cache_dir to "
                "another folder."
            ) from error
        return volume


def item_key(item: Item) -> bytes:
    """Name an item by its entries and by size and time of its files."""
    stats = [(os.path.abspath(file), (stat := file.stat()).st_size, stat.st_mtime_ns) for file in item_files(item)]
    return digest([item, stats])


def item_files(item: Item) -> list[Path]:
    """All files of an item: its image, which may be a folder of slices, and its labels."""
    names = [
        item["image"],
        *item.get("further_images", ()),
        *(annotation["label"] for annotation in annotations_of(item)),
    ]
    return [file for name in names for file in sorted(Path(name).iterdir() if Path(name).is_dir() else [Path(name)])]


def transforms_key(transforms: Sequence[Transform]) -> bytes:
    """Name transforms by their settings, and by the versions of those who wrote them."""
    return digest([settings_of(list(transforms)), monai.__version__, dcl_monai.__version__])


def digest(content: Any) -> bytes:
    """Name plain data by what it is."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()[:32].encode()


def settings_of(value: Any) -> Any:
    """
    Describe a transform by plain data: its attributes, and those of transforms inside it.

    Of other objects (readers of files, functions) only the name counts, and nothing of those that a transform keeps to
    itself: they come and change with its use.
    """
    if isinstance(value, Transform):
        settings = {
            name: settings_of(entry)
            for name, entry in vars(value).items()
            if not name.startswith("_") or isinstance(entry, (Transform, bool, int, float, str))
        }
        return [type(value).__qualname__, settings]
    if isinstance(value, Mapping):
        return {str(key): settings_of(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [settings_of(entry) for entry in (value if isinstance(value, (list, tuple)) else sorted(value, key=str))]
    if isinstance(value, (str, int, float, type(None), Enum)):
        return value
    if isinstance(value, (np.ndarray, torch.Tensor)):
        return value.tolist()
    return getattr(value, "__qualname__", type(value).__qualname__)


def packed(value: Any) -> Any:
    """Reduce a volume to what may be read without running code: tensor, affine and candidate sets."""
    if not isinstance(value, MetaTensor):
        return value
    metadata = {key: value.meta[key] for key in KEPT_METADATA if key in value.meta}
    return {"tensor": plain(value).contiguous(), "affine": plain(value.affine), "metadata": metadata}


def unpacked(value: Any) -> Any:
    """Undo :func:`packed`."""
    if not (isinstance(value, dict) and set(value) == {"tensor", "affine", "metadata"}):
        return value
    return MetaTensor(value["tensor"], affine=value["affine"], meta=value["metadata"])
