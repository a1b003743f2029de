"""Seeding random transforms for every item."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from monai.transforms import Compose, Randomizable
from monai.utils import MAX_SEED

_ALIKE: WeakKeyDictionary[Randomizable, bool] = WeakKeyDictionary()
"""Transforms that were seen before: whether :func:`reseed` does the same as their own ``set_random_state``."""


def seed_transform(transform: Randomizable, seed: int) -> None:
    """
    ``transform.set_random_state(seed)``, sooner.

    MONAI makes a new generator for every random transform inside, which takes more than a tenth of the time of loading
    an item. Here the generators that are there are seeded again. The first time both ways are compared; where they
    differ, or a transform is not MONAI's own, MONAI's way is taken.
    """
    if _ALIKE.get(transform):
        reseed(transform, seed)
        return
    transform.set_random_state(seed=seed)
    if transform not in _ALIKE:
        wanted = states(transform)
        transform.set_random_state(seed=(seed + 1) % MAX_SEED)
        own = all(type(part).__module__.startswith("monai.") for part in random_parts(transform))
        if own:
            reseed(transform, seed)
        _ALIKE[transform] = own and states(transform) == wanted
        if not _ALIKE[transform]:
            transform.set_random_state(seed=seed)


def reseed(transform: Randomizable, seed: int) -> None:
    """Seed the generators as MONAI does: a Compose draws a seed for every part, others pass theirs on."""
    transform.R.seed(seed)
    if isinstance(transform, Compose):
        for part in transform.transforms:
            if isinstance(part, Randomizable):
                reseed(part, int(transform.R.randint(MAX_SEED, dtype="uint32")))
    else:
        for part in vars(transform).values():
            if isinstance(part, Randomizable):
                reseed(part, seed)


def random_parts(value: Any) -> Iterator[Randomizable]:
    """All random transforms in a value, itself included."""
    if isinstance(value, Randomizable):
        yield value
        value = vars(value)
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for part in value:
            yield from random_parts(part)


def states(transform: Randomizable) -> list[tuple[Any, ...]]:
    """The states of all generators of a transform."""
    found = (part.R.get_state() for part in random_parts(transform))
    return [tuple(entry.tobytes() if isinstance(entry, np.ndarray) else entry for entry in state) for state in found]
