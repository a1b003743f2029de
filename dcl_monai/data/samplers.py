"""Which items an epoch draws, and how often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, cast

import ignite.distributed as idist
import numpy as np
import torch
from torch.utils.data import Dataset, DistributedSampler

from dcl_monai.samples import Sample


class DrawSampler(DistributedSampler):
    """
    Draw items in random order, all of them once before any of them again.

    An epoch can have more draws than there are items: of n items, index i + r n is the r-th further draw of item i,
    which :class:`~dcl_monai.data.ConditionalDataset` augments in its own way. With fewer, it sees some of the items.

    The draws depend on ``(seed, epoch)`` alone, and several ranks share them out; MONAI's trainers set the epoch of
    every :py:class:`torch.utils.data.DistributedSampler`.

    Args:
        items: the items.
        num_samples: draws per epoch, of all ranks together; default: one for every item. What is left over when they
            are shared out is not drawn.
        seed: seed of all draws, the same on every rank.
        num_replicas: number of ranks; default: those of the process group, or one.
        rank: the own rank; default: that in the process group, or 0.
    """

    def __init__(
        self,
        items: Sequence[Sample],
        num_samples: int | None = None,
        seed: int = 0,
        num_replicas: int | None = None,
        rank: int | None = None,
    ) -> None:
        super().__init__(
            cast(Dataset, items),
            num_replicas=idist.get_world_size() if num_replicas is None else num_replicas,
            rank=idist.get_rank() if rank is None else rank,
            seed=seed,
            drop_last=True,
        )
        self.everything = len(items)
        self.num_samples = (self.everything if num_samples is None else num_samples) // self.num_replicas
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[int]:
        before: Counter[int] = Counter()
        draws = []
        for item in self.draws(np.random.default_rng((self.seed, self.epoch))):
            draws.append(item + before[item] * self.everything)
            before[item] += 1
        return iter(draws[self.rank : self.total_size : self.num_replicas])

    def draws(self, rng: np.random.Generator) -> list[int]:
        """The items that all ranks together draw in an epoch."""
        passes = -(-self.total_size // max(self.everything, 1))
        return np.concatenate([rng.permutation(self.everything) for _ in range(passes)])[: self.total_size].tolist()


class CandidateSampler(DrawSampler):
    """
    Draw items so that every class is seen often enough: a class at random, then an item in which it is drawn.

    An item shows a class where a voxel's candidate set is that class alone. Half of the draws are of any item, so that
    nothing is left out, unlabelled images included.

    Args:
        items: the items, such as a :class:`~dcl_monai.data.PatchDataset`.
        num_classes: number of classes m.
        **kwargs: further arguments of :class:`DrawSampler`.
    """

    def __init__(self, items: Sequence[Sample], num_classes: int, **kwargs: Any) -> None:
        super().__init__(items, **kwargs)
        showing: list[list[int]] = [[] for _ in range(num_classes)]
        for index in range(len(items)):
            item = items[index]
            drawn = {item["sets"][int(code)] for code in torch.unique(item["label"])}
            for j in range(num_classes):
                if 1 << j in drawn:
                    showing[j].append(index)
        self.showing = [np.array(members, dtype=np.int64) for members in showing]  # a draw of a list would copy it

    def draws(self, rng: np.random.Generator) -> list[int]:
        """The items that all ranks together draw in an epoch."""
        classes = [members for members in self.showing if len(members)]
        draws = []
        for _ in range(self.total_size):
            if not classes or rng.random() < 0.5:
                draws.append(int(rng.integers(self.everything)))
            else:
                draws.append(int(rng.choice(classes[rng.integers(len(classes))])))
        return draws
