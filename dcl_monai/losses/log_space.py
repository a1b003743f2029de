"""Sums and complements of probabilities in log space, with backward passes written by hand: they make up most of the
cost of the loss, and autograd would keep and revisit every step of their stable form. Sets of events are products with
0 or 1, which a CPU computes several times faster than torch.where."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import once_differentiable

__all__ = ["LogAdd", "LogNot", "LogSum"]


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
        grad_a = torch.sigmoid(a - b).mul_(grad)
        return grad_a, grad - grad_a


class LogNot(torch.autograd.Function):
    """
    log(1 - p) from the log-probabilities of mutually exclusive events along dimension 1.

    Where p is large it is summed up from the remaining events, so that it is exact where p rounds to 1; elsewhere
    log1p(-p) is well conditioned. The border lies above 1/2, so that no two events of a voxel are large even if both
    round up to a little more than 1/2.
    """

    @staticmethod
    def forward(ctx: Any, log: torch.Tensor, prob: torch.Tensor) -> torch.Tensor:
        small = torch.le(prob, 0.6, out=torch.empty_like(log))
        large = 1.0 - small
        small_prob = prob * small
        rest = torch.add(log, large, alpha=lowest(log)).logsumexp(dim=1, keepdim=True)
        ctx.save_for_backward(log, small_prob, small, rest)
        return torch.log1p(-small_prob).add_(large * rest)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        log, small_prob, small, rest = ctx.saved_tensors
        of_large = (1.0 - small).mul_(grad).sum(dim=1, keepdim=True)
        share = (log - rest).clamp_(max=0.0).exp_()  # of every small event in the rest
        of_small = share.mul_(of_large).addcmul_(grad, small_prob / (small_prob - 1.0))
        return of_small.mul_(small), None


class LogSum(torch.autograd.Function):
    """log of the summed probability of the members of a set, given as 0 or 1; for an empty set the log of almost 0."""

    @staticmethod
    def forward(ctx: Any, log: torch.Tensor, members: torch.Tensor) -> torch.Tensor:
        result = torch.add(log, 1.0 - members, alpha=lowest(log)).logsumexp(dim=1, keepdim=True)
        ctx.save_for_backward(log, members, result)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        log, members, result = ctx.saved_tensors
        return (log - result).clamp_(max=0.0).exp_().mul_(members).mul_(grad), None


def lowest(log: torch.Tensor) -> float:
    """What is added to the log of an event that does not count: finite, so that nothing turns into nan."""
    return torch.finfo(log.dtype).min / 2
