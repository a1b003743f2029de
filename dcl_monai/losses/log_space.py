"""Sums and complements of probabilities in log space, with backward passes written by hand: they make up most of the
cost of the loss, and autograd would keep and revisit every step of their stable form."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import once_differentiable

__all__ = ["LogAdd", "LogNot"]


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
        large = prob > 0.6
        rest = torch.where(large, -torch.inf, log).logsumexp(dim=1, keepdim=True)
        ctx.save_for_backward(log, prob, large, rest)
        return torch.where(large, rest, torch.log1p(-prob))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        log, prob, large, rest = ctx.saved_tensors
        of_large = torch.where(large, grad, 0.0).sum(dim=1, keepdim=True)
        of_small = grad * (prob / (prob - 1.0)) + (log - rest).exp_() * of_large
        return torch.where(large, 0.0, of_small), None
