"""Class probabilities in log space, so that no probability of 0 or 1 gives inf or nan."""

from __future__ import annotations

from functools import cached_property

import torch

from dcl_monai.candidates import as_numbers

from .log_space import LogAdd, LogNot, LogSum, is_safe


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

    @property
    def shape(self) -> torch.Size:
        """Shape of the probabilities."""
        return self.log.shape

    @cached_property
    def classes(self) -> LogProbabilities:
        """The classes whose intersections and extras these channels are."""
        return ClassProbabilities(self)

    def split(self) -> tuple[LogProbabilities, LogProbabilities]:
        """The intersections z_cap and the extras z_delta."""
        return ShareProbabilities(self, 0.0), ShareProbabilities(self, 1.0)

    def either(self, is_delta: torch.Tensor) -> LogProbabilities:
        """The extra where a boolean mask Bm[HWD] is set, the intersection elsewhere."""
        return ShareProbabilities(self, as_numbers(is_delta, self.log.dtype))

    @cached_property
    def halves(self) -> tuple[torch.Tensor, ...]:
        """The logs of the intersections and of the extras."""
        return self.log.chunk(2, dim=1)

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
        return LogSum.apply(self.log, as_numbers(members, self.log.dtype), self.prob.detach())


class ClassProbabilities(LogProbabilities):
    """The sums of intersections and extras, y_j = z_cap_j + z_delta_j. Logs are added only where they are needed."""

    def __init__(self, channels: LogProbabilities) -> None:
        self._channels = channels

    @property
    def shape(self) -> torch.Size:
        """Shape of the probabilities, without computing them."""
        return self._channels.halves[0].shape

    @cached_property
    def log(self) -> torch.Tensor:  # type: ignore[override]
        """log y, which is finite also where both summands round to 0."""
        return LogAdd.apply(*self._channels.halves)

    @cached_property
    def prob(self) -> torch.Tensor:
        """The probabilities y."""
        if "log" in self.__dict__:  # half as many exponentials
            return self.log.exp()
        cap, delta = self._channels.prob.chunk(2, dim=1)
        return cap + delta

    def log_sum(self, members: torch.Tensor) -> torch.Tensor:
        """The same set, of intersections and extras where the sum of the classes is too small."""
        total = (self.prob * as_numbers(members, self.prob.dtype)).sum(dim=1, keepdim=True)
        return total.log() if is_safe(total) else self._channels.log_sum(torch.cat([members, members], dim=1))


class ShareProbabilities(LogProbabilities):
    """
    The intersections or the extras alone: the m channels of a voxel no longer sum up to 1.

    ``is_delta`` is 1 for the extra of a class in a voxel, 0 for its intersection: Bm[HWD], or a number for all.
    """

    def __init__(self, channels: LogProbabilities, is_delta: torch.Tensor | float) -> None:
        self._channels, self._is_delta = channels, is_delta

    @cached_property
    def log(self) -> torch.Tensor:  # type: ignore[override]
        """Their logs."""
        return self._chosen(*self._channels.halves)

    @cached_property
    def prob(self) -> torch.Tensor:
        """Their probabilities."""
        return self._chosen(*self._channels.prob.chunk(2, dim=1))

    @cached_property
    def log_not(self) -> torch.Tensor:
        """1 - z_cap_j = (1 - y_j) + z_delta_j, and the other way round, in log space."""
        other = self._chosen(*reversed(self._channels.halves))
        return LogAdd.apply(self._channels.classes.log_not, other)

    def _chosen(self, cap: torch.Tensor, delta: torch.Tensor) -> torch.Tensor:
        if isinstance(self._is_delta, float):
            return delta if self._is_delta else cap
        return torch.lerp(cap, delta, self._is_delta)  # exact at 0 and 1


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
