"""Class probabilities in log space, so that no probability of 0 or 1 gives inf or nan."""

from __future__ import annotations

from functools import cached_property

import torch

from dcl_monai.candidates import as_numbers

from .log_space import LogAdd, LogNot, LogSum

__all__ = ["LogProbabilities", "class_probabilities"]


class LogProbabilities:
    """
    Log-probabilities of mutually exclusive events along dimension 1, with their complements.

    Computed in float32 at least, whatever autocast does around it.

    Args:
        log: normalised log-probabilities, shape BN[HWD].

    Examples:
        >>> p = LogProbabilities.of_classes(torch.tensor([[200.0, 0.0]]), num_classes=2)
        >>> p.log_not  # log(1 - p) stays finite where p rounds to 1
        tensor([[-200.,    0.]])
    """

    def __init__(self, log: torch.Tensor) -> None:
        self.log = log

    @classmethod
    def of_channels(cls, logits: torch.Tensor) -> LogProbabilities:
        """Softmax over all channels: z of Eq. 5 when the network predicts intersections and extras."""
        logits = logits if logits.dtype == torch.float64 else logits.float()
        return cls(torch.log_softmax(logits, dim=1))

    @classmethod
    def of_classes(cls, logits: torch.Tensor, num_classes: int) -> LogProbabilities:
        """
        Class probabilities y of a network's logits.

        Args:
            logits: BN[HWD] with N = m, or N = 2m: m intersections followed by m extras.
            num_classes: number of classes m.

        Raises:
            ValueError: when the number of channels is neither m nor 2m.
        """
        return cls.of_channels(logits).merged(num_classes)

    def merged(self, num_classes: int) -> LogProbabilities:
        """Add intersection and extra: y_j = z_cap_j + z_delta_j, in log space."""
        channels = self.log.shape[1]
        if channels == num_classes:
            return self
        if channels != 2 * num_classes:
            raise ValueError(f"{num_classes} classes need {num_classes} or {2 * num_classes} channels, got {channels}.")
        return self.classes

    @cached_property
    def halves(self) -> tuple[torch.Tensor, ...]:
        """The logs of the intersections and of the extras."""
        return self.log.chunk(2, dim=1)

    @cached_property
    def classes(self) -> LogProbabilities:
        """The classes whose intersections and extras these channels are."""
        return LogProbabilities(LogAdd.apply(*self.halves))

    def split(self) -> tuple[LogProbabilities, LogProbabilities]:
        """The intersections z_cap and the extras z_delta."""
        cap, delta = self.halves
        return ShareProbabilities(cap, delta, self.classes), ShareProbabilities(delta, cap, self.classes)

    @cached_property
    def prob(self) -> torch.Tensor:
        """The probabilities p."""
        return self.log.exp()

    @cached_property
    def log_not(self) -> torch.Tensor:
        """log(1 - p), exact where p rounds to 1."""
        return LogNot.apply(self.log, self.prob.detach())

    def log_sum(self, members: torch.Tensor) -> torch.Tensor:
        """
        log of the summed probability of a set of events per voxel (the log of a tiny number for an empty set).

        Args:
            members: boolean, shape BN[HWD].

        Returns:
            shape B1[HWD].
        """
        return LogSum.apply(self.log, as_numbers(members, self.log.dtype))


class ShareProbabilities(LogProbabilities):
    """
    The intersections (or the extras) alone: the m channels of a voxel no longer sum up to 1.

    Args:
        log: their logs, shape Bm[HWD].
        other: the logs of the extras (or intersections), shape Bm[HWD].
        classes: the probabilities of the classes, the sums of both.
    """

    def __init__(self, log: torch.Tensor, other: torch.Tensor, classes: LogProbabilities) -> None:
        super().__init__(log)
        self._other, self._classes = other, classes

    @cached_property
    def log_not(self) -> torch.Tensor:
        """1 - z_cap_j = (1 - y_j) + z_delta_j, and the other way round, in log space."""
        return LogAdd.apply(self._classes.log_not, self._other)


def class_probabilities(logits: torch.Tensor, num_classes: int) -> torch.Tensor:
    """
    Class probabilities of a network's m or 2m logits: softmax over all channels, intersection plus extra.

    Args:
        logits: BN[HWD] with N = m or 2m.
        num_classes: number of classes m.

    Returns:
        shape Bm[HWD].
    """
    prob = torch.softmax(logits.float() if logits.dtype != torch.float64 else logits, dim=1)
    if prob.shape[1] == num_classes:
        return prob
    return prob[:, :num_classes] + prob[:, num_classes:]
