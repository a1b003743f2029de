"""Training data: 2D slices of volumes, and targets with their conditions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from monai.data import MetaTensor, get_track_meta, set_track_meta
from torch.utils.data import Dataset

from dcl_monai.candidates import (
    all_classes,
    annotated_classes,
    candidate_sets,
    expand,
    indistinct_classes,
    known,
    known_positive,
)
from dcl_monai.networks.bank import SimilarityRule
from dcl_monai.utils import DataError

__all__ = ["ConditionalDataset", "SliceDataset"]

logger = logging.getLogger(__name__)


class LastVolume:
    """
    Volumes of which the last one that was asked for stays at hand.

    A pass over pieces in their order so reads every volume once, and never holds more than one, however many there are.

    Args:
        volumes: the volumes, read whenever one is asked for; or a cache of them.
    """

    def __init__(self, volumes: Sequence[Mapping[Hashable, Any]]) -> None:
        self.volumes = volumes
        self._last: tuple[int, Mapping[Hashable, Any]] | None = None

    def __len__(self) -> int:
        return len(self.volumes)

    def __getitem__(self, index: int) -> Mapping[Hashable, Any]:
        if self._last is None or self._last[0] != index:
            self._last = None  # not two at a time
            self._last = (index, self.volumes[index])
        return self._last[1]

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_last": None}  # workers read their own


class SliceDataset(Dataset):
    """
    The slices of preprocessed volumes, along their last axis.

    Args:
        volumes: items with ``image`` (C, H, W, D), coded ``label`` (1, H, W, D) and ``subject``; best cached
            (:func:`dcl_monai.data.cached_dataset`), since slices are asked for in any order.
    """

    def __init__(self, volumes: Sequence[Mapping[Hashable, Any]]) -> None:
        self.volumes = LastVolume(volumes)
        depths = (self.volumes[v]["image"].shape[-1] for v in range(len(volumes)))
        self.places = [(v, k) for v, depth in enumerate(depths) for k in range(depth)]

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Return ``image`` (C, H, W), ``label`` codes (1, H, W), their ``sets``, and ``subject``."""
        volume, k = self.places[index]
        item = self.volumes[volume]
        image, label = item["image"], item["label"]
        return {
            "image": plain(image)[..., k],
            "label": plain(label)[..., k],
            "sets": candidate_sets(label),
            "subject": item["subject"],
        }


class ConditionalDataset(Dataset):
    """
    Targets with one conditional image per class, augmented, in the form in which the trainer takes them.

    For every class j the condition is an image in which j is annotated, never of the target's own subject: out of
    ``pool`` such images drawn at random, the rule takes the most similar one. With ``pool=1`` that is the paper's
    random condition; with as many as the bank of the served model holds, training sees what service will see.

    Everything random depends on ``(seed, epoch, index)`` alone: any number of workers gives the same data, and a
    resumed run goes on as if it had never stopped. Of n items, index i + r n is the r-th further draw of item i, with
    random choices of its own: a sampler that draws an item twice (:class:`dcl_monai.data.CandidateSampler`) does not
    get the same data twice.

    Args:
        items: items of one size with ``image`` (C, \\*spatial), ``label`` codes (1, \\*spatial), ``sets`` and
            ``subject``; a :class:`SliceDataset`, for example.
        num_classes: number of classes m.
        classes: class names, for messages.
        conditional: whether to add conditions.
        rule: how a condition is picked.
        pool: how many images per class the rule may choose from.
        plain_epochs: first epochs in which no conditions are shown (zeros), nor loaded: a plain network is trained by
            L_comp, from which the conditional one then starts.
        transform: random transforms over the keys ``image``, ``label``, ``cond_image`` (mC channels) and ``cond_label``
            (m channels of codes). Keys in one spatial transform move together, keys in another apart. What it leaves
            as ``plain_image``, a copy of the image before any change, is what DualNet sees when it fills in labels
            (:class:`~dcl_monai.losses.FillLoss`), and ``plain_grid``, coordinates that were moved with the image,
            says where each voxel comes from.
        seed: seed of all random choices.

    Raises:
        DataError: when a class is annotated in fewer than two subjects; one that is drawn nowhere on its own but told
            from all others (by unions, or as the rest) is learned by exclusion, without conditions.
    """

    def __init__(
        self,
        items: Sequence[Mapping[str, Any]],
        num_classes: int,
        classes: Sequence[str] | None = None,
        conditional: bool = True,
        rule: SimilarityRule | None = None,
        pool: int = 16,
        plain_epochs: int = 0,
        transform: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
        seed: int = 0,
    ) -> None:
        self.items = items
        self.num_classes = num_classes
        self.conditional = conditional
        self.rule = SimilarityRule() if rule is None else rule
        self.pool = pool
        self.plain_epochs = plain_epochs
        self.transform = transform
        self.seed = seed
        self._epoch = torch.zeros((), dtype=torch.int64).share_memory_()  # seen by persistent workers too
        if conditional:
            self._index(classes or [str(j) for j in range(num_classes)])

    def _index(self, classes: Sequence[str]) -> None:
        """Describe every item once, and note in which items each class is annotated."""
        self.subjects = []
        told: set[int] = set()
        self.annotated: list[list[int]] = [[] for _ in range(self.num_classes)]
        for index, item in enumerate(self.items[i] for i in range(len(self.items))):
            described = self.rule.describe(item["image"].unsqueeze(0))[0]
            if index == 0:
                # at once: many small tensors that stay, between large ones that go, would leave the heap in pieces
                self.descriptors = described.new_zeros((len(self.items), len(described)))
            self.descriptors[index] = described
            self.subjects.append(item["subject"])
            # scribbles annotate no class everywhere, but a stroke of j shows j
            drawn = {item["sets"][int(code)] for code in item["label"].unique()}
            told |= drawn
            everywhere = annotated_classes(item["sets"], self.num_classes)
            for j in range(self.num_classes):
                if j in everywhere or 1 << j in drawn:
                    self.annotated[j].append(index)
        indistinct = indistinct_classes(told, self.num_classes)
        for j, entries in enumerate(self.annotated):
            shown = {self.subjects[index] for index in entries}
            if not shown and not any(j in pair for pair in indistinct):
                logger.warning(
                    f"class {classes[j]!r} is drawn on its own in no training image: it has no conditions, and is "
                    "learned by exclusion."
                )
            elif len(shown) < 2:
                raise DataError(
                    f"class {classes[j]!r} is annotated in {len(shown)} training subject(s), but conditions need two, "
                    "so that every image finds one of another subject: annotate it in one more, or train without "
                    "conditions (configs/ablation/3.json). If more subjects show it, its voxels are lost by a coarse "
                    "`pixdim` or outside `spatial_size`."
                )

    def set_epoch(self, epoch: int) -> None:
        """Choose the random draws of an epoch; see :class:`dcl_monai.handlers.EpochSeed`."""
        self._epoch.fill_(epoch)

    def __len__(self) -> int:
        return len(self.items)

    def conditions(self, index: int, rng: np.random.Generator) -> list[int | None]:
        """Pick the items that are the conditions of item ``index``, one for every class that has any."""
        pools = []
        for entries in self.annotated:
            others = [entry for entry in entries if self.subjects[entry] != self.subjects[index]] or [index]
            pools.append(rng.choice(others, size=min(self.pool, len(others)), replace=False))
        width = max(len(pool) for pool in pools)
        padded = torch.tensor(np.stack([np.resize(pool, width) for pool in pools]))
        allowed = torch.tensor([[k < len(pool) for k in range(width)] for pool in pools])
        described = self.descriptors[index].unsqueeze(0)
        picked = self.rule(described, self.descriptors[padded], allowed.unsqueeze(0))[0]
        chosen = padded[torch.arange(self.num_classes), picked].tolist()
        return [entry if entries else None for entry, entries in zip(chosen, self.annotated, strict=True)]

    def load(self, indices: Sequence[int | None], like: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """The items of conditions; a blank one, of which nothing is known, for a class without conditions."""
        blank = {key: torch.zeros_like(like[key]) for key in ("image", "label")}
        # in their order, so that two pieces of one volume read it once
        loaded = {index: self.items[index] for index in sorted({k for k in indices if k is not None})}
        return [
            blank | {"sets": (all_classes(self.num_classes),)} if index is None else loaded[index] for index in indices
        ]

    def __getitem__(self, index: int) -> dict[str, Any]:
        """
        Args:
            index: number of an item, plus the number of items for every further draw of it in one epoch.

        Returns:
            ``image`` (C, \\*spatial) and ``label``, boolean candidate sets (m, \\*spatial); with conditions also
            ``cond_image`` (mC, \\*spatial), ``cond_mask`` and ``cond_known`` (m, \\*spatial): where the condition of
            class j is known to be j, and where that is known at all; but for plain epochs ``dual_class``, the class s
            of the closed loop, and ``dual_image`` (C, \\*spatial) and ``dual_label`` (m, \\*spatial), image and
            candidate sets of the condition of class s; ``plain_image`` (C, \\*spatial) and ``plain_grid``, with the
            coordinates in its last channels, if the transform gives them.
        """
        rng = np.random.default_rng((self.seed, int(self._epoch), index))
        number = index % len(self.items)
        target = self.items[number]
        data: dict[str, Any] = {"image": target["image"], "label": target["label"]}
        shown = self.conditional and not 0 < int(self._epoch) <= self.plain_epochs
        sets = []
        if shown:
            picked = self.load(self.conditions(number, rng), target)
            data["cond_image"] = torch.cat([item["image"] for item in picked])
            data["cond_label"] = torch.cat([item["label"] for item in picked])
            sets = [item["sets"] for item in picked]
        if self.transform is not None:
            if hasattr(self.transform, "set_random_state"):
                self.transform.set_random_state(seed=int(rng.integers(2**31)))
            with untracked_meta():
                data = self.transform(data)
        image = plain(data["image"])
        output: dict[str, Any] = {
            "image": image,
            "label": expand(plain(data["label"])[0], target["sets"], self.num_classes),
        }
        output |= {key: plain(data[key]) for key in ("plain_image", "plain_grid") if key in data}
        if shown:
            codes = plain(data["cond_label"])
            labels = [expand(codes[j], sets[j], self.num_classes) for j in range(self.num_classes)]
            available = [j for j, entries in enumerate(self.annotated) if entries]
            dual_class = available[rng.integers(len(available))]
            output |= {
                "cond_image": plain(data["cond_image"]),
                "cond_mask": torch.stack([known_positive(labels[j], dim=0)[j] for j in range(self.num_classes)]),
                "cond_known": torch.stack([known(labels[j], dim=0)[j] for j in range(self.num_classes)]),
                "dual_class": dual_class,
                "dual_image": plain(data["cond_image"]).unflatten(0, (self.num_classes, -1))[dual_class],
                "dual_label": labels[dual_class],
            }
        elif self.conditional:
            nothing = torch.zeros_like(output["label"])
            blank = image.new_zeros((self.num_classes * len(image), *image.shape[1:]))
            output |= {"cond_image": blank, "cond_mask": nothing, "cond_known": nothing}
        return output


@contextmanager
def untracked_meta() -> Iterator[None]:
    """Let MONAI's transforms work on plain tensors, at half the cost: what is augmented here is never inverted."""
    tracked = get_track_meta()
    set_track_meta(False)
    try:
        yield
    finally:
        set_track_meta(tracked)


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """Drop metadata: arithmetic on MetaTensors is slow, and the trainer needs none of it."""
    return tensor.as_tensor() if isinstance(tensor, MetaTensor) else torch.as_tensor(tensor)
