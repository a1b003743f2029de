"""Sums and complements of probabilities, from their logarithms, so that small ones are not lost."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import once_differentiable

# Speed decides the form of these functions, as they are most of the cost of the loss. Backward passes are written by
# hand: autograd would keep and revisit every step of the stable form. A set of events is a product with 0 or 1, which a
# CPU computes several times faster than torch.where. On a CPU, probabilities whose sum lost nothing to underflow are
# summed directly, without most of the exponentials.

SAFE = 1e-30
"""A sum of probabilities above it has lost nothing to underflow."""


class LogAdd(torch.autograd.Function):
    """log(exp a + exp b) of finite a and b: :func:`torch.logaddexp` with a cheaper backward pass."""

    @staticmethod
    def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(a, b)
        return torch.logaddexp(a, b)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        a, b = ctx.saved_tensors
        grad_a = (a - b).sigmoid_().mul_(grad)
        return grad_a, grad - grad_a


class LogNot(torch.autograd.Function):
    """
    log(1 - p) from the log-probabilities of mutually exclusive events along dimension 1, and p = exp of them.

    Where p is large it is summed up from the remaining events, so that it is exact where p rounds to 1; elsewhere
    log1p(-p) is well conditioned. The border lies above 1/2, so that no two events of a voxel are large even if both
    round up to a little more than 1/2.
    """

    @staticmethod
    def forward(ctx: Any, log: torch.Tensor, prob: torch.Tensor) -> torch.Tensor:
        small = torch.le(prob, 0.6, out=torch.empty_like(log))
        small_prob = prob * small
        rest, part, whole = sum_of(log, small, small_prob)
        large = small.neg_().add_(1.0)
        ctx.save_for_backward(small_prob, large, part, whole)
        return torch.neg(small_prob).log1p_().addcmul_(large, rest)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        small_prob, large, part, whole = ctx.saved_tensors
        of_large = (large * grad).sum(dim=1, keepdim=True) / whole
        return (small_prob - 1.0).reciprocal_().mul_(small_prob).mul_(grad).addcmul_(part, of_large), None


class LogSum(torch.autograd.Function):
    """
    log of the summed probability of the members of a set, given as 0 or 1; for an empty set the log of almost 0.

    Its arguments are log-probabilities, the members, and the probabilities.
    """

    @staticmethod
    def forward(ctx: Any, log: torch.Tensor, members: torch.Tensor, prob: torch.Tensor) -> torch.Tensor:
        result, part, whole = sum_of(log, members, prob * members)
        ctx.save_for_backward(part, whole)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        part, whole = ctx.saved_tensors
        return part * (grad / whole), None, None


def sum_of(log: torch.Tensor, members: torch.Tensor, prob: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """
    The log of a sum of probabilities, and what each event makes up of it, as a part and a whole to divide it by.

    ``members`` is 1 for the events that are summed, and 0 for others; ``prob`` is 0 for these, too, ``log`` is not.
    """
    total = prob.sum(dim=1, keepdim=True)
    if is_safe(total):
        return total.log(), prob, total
    result = torch.add(log, 1.0 - members, alpha=lowest(log)).logsumexp(dim=1, keepdim=True)
    return result, (log - result).clamp_(max=0.0).exp_().mul_(members), torch.ones_like(result)


def is_safe(total: torch.Tensor) -> bool:
    """Whether sums of probabilities have lost nothing to underflow; a GPU would have to wait for the answer."""
    return total.device.type == "cpu" and total.numel() > 0 and bool(total.amin() > SAFE)


def lowest(log: torch.Tensor) -> float:
    """What is added to the log of an event that does not count: finite, so that nothing turns into nan."""
    return torch.finfo(log.dtype).min / 2
