"""Training data: targets with their conditions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from monai.data import get_track_meta, set_track_meta
from monai.transforms import Randomizable
from torch.utils.data import Dataset

from dcl_monai.candidates import (
    all_classes,
    annotated_classes,
    class_rows,
    expand,
    indistinct_classes,
)
from dcl_monai.conditions.bank import SimilarityRule
from dcl_monai.samples import Batch, Sample
from dcl_monai.utils import DataError, as_bool

from .seeding import seed_transform
from .slices import plain

logger = logging.getLogger(__name__)


class ConditionalDataset(Dataset):
    """
    Targets with one conditional image per class, augmented, in the form in which the trainer takes them.

    For every class j the condition is an image in which j is annotated, never of the target's own subject: out of
    ``pool`` such images drawn at random, the rule takes the most similar one. With ``pool=1`` that is the paper's
    random condition; with as many as the bank of the served model holds, training sees what service will see. The
    conditions of the other classes are not of the dual target's subject either: they are its conditions in the dual
    pass.

    Everything random depends on ``(seed, epoch, index)`` alone: any number of workers gives the same data, and a
    resumed run goes on as if it had never stopped. Of n items, index i + r n is the r-th further draw of item i, with
    random choices of its own: a sampler that draws an item twice (:class:`dcl_monai.data.CandidateSampler`) does not
    get the same data twice.

    Args:
        items: items of one size; a :class:`~dcl_monai.data.SliceDataset`, for example.
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
        DataError: when a class is annotated in fewer than two subjects, or drawn in one of them only. One that is drawn
            nowhere on its own but told from the others is learned by exclusion, without conditions.
    """

    def __init__(
        self,
        items: Sequence[Sample],
        num_classes: int,
        classes: Sequence[str] | None = None,
        conditional: bool | str = True,
        rule: SimilarityRule | None = None,
        pool: int = 16,
        plain_epochs: int = 0,
        transform: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]] | None = None,
        seed: int = 0,
    ) -> None:
        self.items = items
        self.num_classes = num_classes
        self.conditional = as_bool(conditional)
        self.rule = SimilarityRule() if rule is None else rule
        self.pool = pool
        self.plain_epochs = plain_epochs
        self.transform = transform
        self.seed = seed
        self._epoch = torch.zeros((), dtype=torch.int64).share_memory_()  # seen by persistent workers too
        if self.conditional:
            self._index(classes or [str(j) for j in range(num_classes)])

    def _index(self, classes: Sequence[str]) -> None:
        """Describe every item once, and note in which items each class is annotated."""
        self.subjects = []
        told: set[int] = set()
        annotated: list[list[int]] = [[] for _ in range(self.num_classes)]
        seen: list[set[str]] = [set() for _ in range(self.num_classes)]
        for index, item in enumerate(self.items[i] for i in range(len(self.items))):
            described = self.rule.describe(item["image"].unsqueeze(0))[0]
            if index == 0:
                # at once: separate small tensors would fragment the memory
                self.descriptors = described.new_zeros((len(self.items), len(described)))
            self.descriptors[index] = described
            self.subjects.append(item["subject"])
            # scribbles annotate no class everywhere, but a stroke of j shows j
            drawn = {item["sets"][int(code)] for code in item["label"].unique()}
            told |= drawn
            everywhere = annotated_classes(item["sets"], self.num_classes)
            for j in range(self.num_classes):
                if 1 << j in drawn:
                    seen[j].add(item["subject"])
                if j in everywhere or 1 << j in drawn:
                    annotated[j].append(index)
        self.annotated: Sequence[np.ndarray] = [np.array(entries, dtype=np.int64) for entries in annotated]
        self.owners = np.unique(self.subjects, return_inverse=True)[1]
        indistinct = indistinct_classes(told, self.num_classes)
        for j, entries in enumerate(annotated):
            shown = {self.subjects[index] for index in entries}
            if not shown and not any(j in pair for pair in indistinct):
                logger.warning(
                    f"no training image has class {classes[j]!r} annotated on its own: it is learned by exclusion, "
                    "without conditions. If you can, annotate it in some images."
                )
            elif len(shown) < 2:
                raise DataError(
                    f"class {classes[j]!r} is annotated in {len(shown)} training subject(s), but conditions need two, "
                    "so that every image finds one of another subject: annotate it in one more, or train without "
                    "conditions (configs/self_training.json). If more subjects show it, a coarse `pixdim` or a small "
                    "`spatial_size` removes its voxels."
                )
            elif len(seen[j]) == 1:
                raise DataError(
                    f"class {classes[j]!r} is drawn in one training subject only ({next(iter(seen[j]))}) and empty in "
                    f"the other {len(shown) - 1}: its conditions would show nothing. Add subjects that have it, "
                    "remove it from `classes`, or train without conditions (configs/self_training.json)."
                )

    def set_epoch(self, epoch: int) -> None:
        """Choose the random draws of an epoch; see :class:`dcl_monai.handlers.EpochSeed`."""
        self._epoch.fill_(epoch)

    def __len__(self) -> int:
        return len(self.items)

    def conditions(self, index: int, dual_class: int, rng: np.random.Generator) -> tuple[list[int | None], list[bool]]:
        """
        Pick the conditions of an item.

        Args:
            index: the item.
            dual_class: class s, whose condition is the dual target.
            rng: random generator.

        Returns:
            an item for every class that has any, and for every class whether it may be a condition of the dual target:
            false where all that is left is of the dual target's own subject.
        """
        # as arrays: of each of 200,000 items a list would be made anew
        others = [entries[self.owners[entries] != self.owners[index]] for entries in self.annotated]
        first = self.pick(index, [others[dual_class]], rng)[0]
        pools, apart = [], []
        for j, entries in enumerate(others):
            strangers = entries[self.owners[entries] != self.owners[first]]
            pool = np.array([first]) if j == dual_class else strangers if len(strangers) else entries
            pools.append(pool if len(pool) else np.array([index]))
            apart.append(j == dual_class or len(strangers) > 0 or not len(self.annotated[j]))
        chosen = self.pick(index, pools, rng)
        return [k if len(entries) else None for k, entries in zip(chosen, self.annotated, strict=True)], apart

    def pick(self, index: int, pools: Sequence[np.ndarray], rng: np.random.Generator) -> list[int]:
        """Draw items out of each pool at random, and let the rule pick one of them for item ``index``."""
        drawn = [rng.choice(pool, size=min(self.pool, len(pool)), replace=False) for pool in pools]
        width = max(map(len, drawn))
        padded = torch.tensor(np.stack([np.resize(pool, width) for pool in drawn]))
        allowed = torch.tensor([[k < len(pool) for k in range(width)] for pool in drawn])
        described = self.descriptors[index].unsqueeze(0)
        picked = self.rule(described, self.descriptors[padded], allowed.unsqueeze(0))[0]
        return padded[torch.arange(len(drawn)), picked].tolist()

    def load(self, indices: Sequence[int | None], like: Sample) -> list[Sample]:
        """The items of conditions; a blank one, of which nothing is known, for a class without conditions."""
        blank: Sample = {
            "image": torch.zeros_like(like["image"]),
            "label": torch.zeros_like(like["label"]),
            "sets": (all_classes(self.num_classes),),
            "subject": "",
        }
        # in their order, so that two pieces of one volume read it once
        loaded = {index: self.items[index] for index in sorted({k for k in indices if k is not None})}
        return [blank if index is None else loaded[index] for index in indices]

    def __getitem__(self, index: int) -> Batch:
        """
        Args:
            index: number of an item, plus the number of items for every further draw of it in one epoch.

        Returns:
            one item of a batch: with conditions, if the data set is conditional; with a dual target, but for plain
            epochs; and with ``plain_*``, if the transform gives them.
        """
        rng = np.random.default_rng((self.seed, int(self._epoch), index))
        number = index % len(self.items)
        target = self.items[number]
        data = {"image": target["image"], "label": target["label"]}
        shown = self.conditional and not 0 < int(self._epoch) <= self.plain_epochs
        sets: list[Sequence[int]] = []
        if shown:
            available = [j for j, entries in enumerate(self.annotated) if len(entries)]
            dual_class = available[rng.integers(len(available))]
            indices, apart = self.conditions(number, dual_class, rng)
            picked = self.load(indices, target)
            data["cond_image"] = torch.cat([item["image"] for item in picked])
            data["cond_label"] = torch.cat([item["label"] for item in picked])
            sets = [item["sets"] for item in picked]
        unmoved = dict(data)
        if self.transform is not None:
            if isinstance(self.transform, Randomizable):
                seed_transform(self.transform, int(rng.integers(2**31)))
            with untracked_meta():
                data = self.transform(data)
        image = plain(data["image"])
        output: Batch = {
            "image": image,
            "label": expand(plain(data["label"])[0], target["sets"], self.num_classes),
        }
        if "plain_image" in data:
            output["plain_image"] = plain(data["plain_image"])
        if "plain_grid" in data:
            output["plain_grid"] = plain(data["plain_grid"])
        if shown:
            codes = plain(data["cond_label"])
            masks, decided = class_masks(codes, sets)
            output |= {
                "cond_image": plain(data["cond_image"]),
                "cond_mask": masks,
                "cond_known": decided,
                "dual_class": torch.tensor(dual_class),
                "dual_image": plain(data["cond_image"]).unflatten(0, (self.num_classes, -1))[dual_class],
                "dual_label": expand(codes[dual_class], sets[dual_class], self.num_classes),
                "dual_apart": torch.tensor(apart),
            }
            if "plain_image" in output:
                output["plain_cond_image"] = plain(unmoved["cond_image"])
                output["plain_cond_mask"] = class_masks(plain(unmoved["cond_label"]), sets)[0]
        elif self.conditional:
            nothing = torch.zeros_like(output["label"])
            blank = image.new_zeros((self.num_classes * len(image), *image.shape[1:]))
            output |= {"cond_image": blank, "cond_mask": nothing, "cond_known": nothing}
        return output


def class_masks(codes: torch.Tensor, sets: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Where the condition of class j is known to be j, and where that is known at all, (m, \\*spatial) each."""
    rows = [class_rows(codes[j], sets[j], j) for j in range(len(sets))]
    return torch.stack([mask for mask, _ in rows]), torch.stack([decided for _, decided in rows])


@contextmanager
def untracked_meta() -> Iterator[None]:
    """Let MONAI's transforms work on plain tensors, at half the cost: what is augmented here is never inverted."""
    tracked = get_track_meta()
    set_track_meta(False)
    try:
        yield
    finally:
        set_track_meta(tracked)
