"""Class probabilities in log space, so that no probability of 0 or 1 gives inf or nan."""

from __future__ import annotations

from functools import cached_property

import torch

__all__ = ["LogProbabilities", "class_probabilities"]


class LogProbabilities:
    """
    Log-probabilities of mutually exclusive events along dimension 1, with their complements.

    Computed in float32 at least, whatever autocast does around it.

    Args:
        log: normalised log-probabilities, shape BN[HWD].

    Example:
        >>> p = LogProbabilities.of_classes(torch.tensor([[200.0, 0.0]]), num_classes=2)
        >>> p.log_not  # log(1 - p) stays finite where p rounds to 1
        tensor([[-200.,    0.]])
    """

    def __init__(self, log: torch.Tensor) -> None:
        self.log = log
        self._merged: LogProbabilities | None = None

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
        if self._merged is None:
            self._merged = LogProbabilities(torch.logaddexp(*self.log.chunk(2, dim=1)))
        return self._merged

    @cached_property
    def prob(self) -> torch.Tensor:
        """The probabilities p."""
        return self.log.exp()

    @cached_property
    def log_not(self) -> torch.Tensor:
        """
        log(1 - p): where p is large it is summed up from the remaining events, so that it is exact where p rounds to 1.

        Elsewhere log1p(-p) is well conditioned. The border lies above 1/2, so that no two events of a voxel are large
        even if both round up to a little more than 1/2. For intersection and extra it follows from that of their class:
        1 - z_cap_j = (1 - y_j) + z_delta_j, and the other way round.
        """
        if self._merged is not None:
            cap, delta = self.log.chunk(2, dim=1)
            others = self._merged.log_not
            return torch.cat([torch.logaddexp(others, delta), torch.logaddexp(others, cap)], dim=1)
        large = self.prob > 0.6
        rest = self.log.masked_fill(large, -torch.inf).logsumexp(dim=1, keepdim=True)
        return torch.where(large, rest, torch.log1p(-self.prob.masked_fill(large, 0.0)))

    def log_sum(self, members: torch.Tensor) -> torch.Tensor:
        """
        log of the summed probability of a set of events per voxel (the log of a tiny number for an empty set).

        Args:
            members: boolean, shape BN[HWD].

        Returns:
            shape B1[HWD].
        """
        floor = torch.finfo(self.log.dtype).min / 2  # finite, so that an empty set has a zero gradient and not nan
        return self.log.masked_fill(~members, floor).logsumexp(dim=1, keepdim=True)


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
