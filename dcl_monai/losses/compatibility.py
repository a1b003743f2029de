"""Is a loss compatible in the sense of Definition 1? A numerical check, with the counterexample when it is not.

A loss is compatible over a partial label if the ground truth is among its minimisers, whatever the hidden classes are.
The check draws truths and annotations of every kind, and looks for predictions that cost less than the truth: random
ones, near misses, and those that descending the loss leads to. Finding none proves nothing; finding one settles it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch.nn import functional as F

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

ANNOTATION_KINDS = ("full", "annotated", "scribble", "union", "intersection", "nothing")
"""Kinds of annotation that :func:`random_candidates` draws."""

CERTAIN = 100.0
"""Logit of the chosen class against 0: the others have a probability of 4e-44."""
SHAPES = ((1, 1), (1, 2), (4, 5))
"""Images that are tried, the smallest first, since its counterexample is the easiest to read."""
DESCENT_STEPS = 60


@dataclass(frozen=True)
class Counterexample:
    """A prediction that a loss prefers to the truth; so is any, if the truth costs ``nan`` or an infinite amount."""

    kind: str  # of the annotation
    truth: torch.Tensor  # true classes, (1, H, W)
    candidates: torch.Tensor  # what the annotation says, boolean (1, m, H, W)
    prediction: torch.Tensor  # class probabilities of the better prediction, (1, m, H, W)
    loss_at_truth: float
    loss_at_prediction: float

    def describe(self) -> str:
        """The voxel at which the prediction differs most from the truth, in words."""
        exact = one_hot_classes(self.truth, self.candidates.shape[1])
        distance = (self.prediction - exact.to(self.prediction.dtype)).abs().sum(1)[0]
        row, column = divmod(int(distance.argmax()), distance.shape[1])
        place = (0, slice(None), row, column)
        allowed = self.candidates[place].nonzero().flatten().tolist()
        shown = ", ".join(f"{p:.2f}" for p in self.prediction[place].tolist())
        size = "x".join(map(str, self.truth.shape[1:]))
        return (
            f"an image of {size} voxel(s), annotation of kind {self.kind!r}\n"
            f"  voxel ({row}, {column}): candidates {allowed}, true class {int(self.truth[0, row, column])}\n"
            f"  loss of the ground truth      {self.loss_at_truth:.6g}\n"
            f"  loss of a better prediction   {self.loss_at_prediction:.6g}\n"
            f"  its probabilities there       [{shown}]"
        )


def one_hot_classes(label: torch.Tensor, channels: int) -> torch.Tensor:
    """Turn classes B[HWD] into boolean B(channels)[HWD]."""
    return F.one_hot(label, channels).movedim(-1, 1).bool()


def certain_logits(choice: torch.Tensor) -> torch.Tensor:
    """Logits, in double precision, of a boolean one-hot choice, with next to no doubt."""
    return CERTAIN * choice.double()


def random_candidates(kind: str, truth: torch.Tensor, num_classes: int, rng: torch.Generator) -> torch.Tensor:
    """
    Draw what an annotation of one of :data:`ANNOTATION_KINDS` says about true classes B[HWD]: boolean candidate sets,
    Bm[HWD], that hold the true class everywhere.
    """

    def some_classes() -> torch.Tensor:
        chosen = torch.rand(num_classes, generator=rng) < 0.5
        chosen[torch.randint(num_classes, (1,), generator=rng)] = True
        return chosen.reshape(1, num_classes, *[1] * (truth.dim() - 1))

    exact = one_hot_classes(truth, num_classes)
    if kind == "full":
        return exact
    if kind == "annotated":
        annotated = some_classes()
        inside = (exact & annotated).any(1, keepdim=True)
        return torch.where(inside, exact, ~annotated)
    if kind == "scribble":
        return exact | (torch.rand(truth.shape, generator=rng) < 0.6).unsqueeze(1)
    if kind == "union":
        union = some_classes()
        return torch.where((exact & union).any(1, keepdim=True), union, ~union)
    if kind == "intersection":
        return random_candidates("annotated", truth, num_classes, rng) & random_candidates(
            "union", truth, num_classes, rng
        )
    if kind == "nothing":
        return torch.ones_like(exact)
    raise ValueError(f"unknown kind of annotation {kind!r}, choose one of {ANNOTATION_KINDS}.")


def other_predictions(truth_logits: torch.Tensor, rng: torch.Generator) -> Iterator[torch.Tensor]:
    """Predictions BN[HWD] that differ from the truth: by little, by a voxel, by much, and in every voxel."""
    shape, channels = truth_logits.shape, truth_logits.shape[1]
    noise = torch.randn(shape, generator=rng, dtype=torch.float64)
    yield from (scale * noise for scale in (0.0, 1.0, 10.0))
    yield truth_logits * 0.05 + noise  # likely right, but unsure
    yield truth_logits * 0.9 + 5 * noise
    one_voxel = truth_logits.flatten(2).clone()
    place = int(torch.randint(one_voxel.shape[2], (1,), generator=rng))
    one_voxel[:, :, place] = one_voxel[:, :, place].roll(int(torch.randint(1, channels, (1,), generator=rng)), dims=1)
    yield one_voxel.reshape(shape)
    # Wrong everywhere; of 2m channels the second is right but for intersection and extra.
    yield from (truth_logits.roll(shift, dims=1) for shift in (1, channels // 2))
    yield certain_logits(one_hot_classes(noise.argmax(1), channels))


def descend(loss: Loss, candidates: torch.Tensor, rng: torch.Generator) -> torch.Tensor | None:
    """Logits that a few steps down the loss lead to; ``None`` if it has no gradient there."""
    logits = torch.randn(candidates.shape, generator=rng, dtype=torch.float64).requires_grad_()
    optimizer = torch.optim.Adam([logits], lr=0.5)
    for _ in range(DESCENT_STEPS):
        value = loss(logits, candidates)
        if not value.requires_grad or not torch.isfinite(value):
            return None
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    return logits.detach()


def find_counterexample(
    loss: Loss, num_classes: int = 4, trials: int = 20, tolerance: float = 1e-6, seed: int = 0
) -> Counterexample | None:
    """
    Look for a prediction that costs less than the ground truth; the first that is found is one of the smallest image.

    Args:
        loss: ``loss(logits, candidates)`` of logits Bm[HWD] and boolean candidate sets Bm[HWD], a scalar.
        num_classes: number of classes m.
        trials: truths and annotations of every kind and image size.
        tolerance: by how much it must cost less.
        seed: seed of all random choices.
    """
    rng = torch.Generator().manual_seed(seed)
    for shape in SHAPES:
        for kind in ANNOTATION_KINDS:
            for trial in range(trials):
                truth = torch.randint(num_classes, (1, *shape), generator=rng)
                candidates = random_candidates(kind, truth, num_classes, rng)
                truth_logits = certain_logits(one_hot_classes(truth, num_classes))
                at_truth = float(loss(truth_logits, candidates))
                others = list(other_predictions(truth_logits, rng))
                if trial < 3:  # slow, and soon says all that it can
                    descended = descend(loss, candidates, rng)
                    others += [] if descended is None else [descended]
                values = [float(loss(logits, candidates)) for logits in others]
                finite = [value for value in values if value == value]
                best = min(finite, default=float("nan"))
                # nothing can be among the minimisers whose cost is not even a number
                if not at_truth < float("inf") or best < at_truth - tolerance:
                    place = values.index(best) if finite else 0
                    probabilities = torch.softmax(others[place], dim=1)
                    return Counterexample(kind, truth, candidates, probabilities, at_truth, best)
    return None


def is_indifferent(loss: Loss, num_classes: int = 4, seed: int = 0) -> bool:
    """Whether a loss accepts predictions that contradict the label: a constant is compatible, and teaches nothing."""
    rng = torch.Generator().manual_seed(seed)
    truth = torch.randint(num_classes, (1, 4, 5), generator=rng)
    exact = one_hot_classes(truth, num_classes)
    contradiction = certain_logits(one_hot_classes((truth + 1) % num_classes, num_classes))
    return not float(loss(contradiction, exact)) > float(loss(certain_logits(exact), exact)) + 1e-6
