"""Multi-kernel maximum mean discrepancy between classes and an anchor class, with its gradient, block by block.

Five Gaussian kernels exp(-distance^2 / width), each twice as wide as the one before, the middle one as wide as the mean
squared distance of two users. Only one exponential is taken per pair, that of the widest kernel: the others are its
2nd, 4th, 8th and 16th power. The gradient is written out. It is the same pairs again, so no pair is kept: memory is
O(N d + block^2), work O(d) per pair, and pairs within a class are visited once and not twice.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

KERNELS = 5


def widest_kernel(X: Tensor) -> Tensor:
    """4 times the mean squared distance of two rows, which is 2 n / (n - 1) times the total variance."""
    mean_square = 2 * (X - X.mean(0)).square().sum() / max(len(X) - 1, 1)
    return (mean_square * 2 ** (KERNELS // 2)).clamp_min(torch.finfo(X.dtype).tiny)


def mmd(
    X: Tensor, members: Sequence[Tensor], anchor: int, widest: Tensor, block: int = 2048
) -> tuple[Tensor, Tensor]:
    """Sum over the other classes of the squared discrepancy to the class numbered `anchor`, and its gradient in `X`.

    `members` holds the rows of each class. The estimate is the one with the diagonal: never negative, zero for equal
    samples.
    """
    value, gradient = X.new_zeros(()), torch.zeros_like(X)
    mean = X.mean(0)  # distances do not notice, and lose fewer digits
    classes = [X[rows] - mean for rows in members]
    slopes = [torch.zeros_like(rows) for rows in classes]
    home = classes[anchor]
    for number, rows in enumerate(classes):
        others = len(classes) - 1 if number == anchor else 1
        value += _within(rows, slopes[number], others / len(rows) ** 2, widest, block)
        if number != anchor:
            share = -2.0 / (len(rows) * len(home))
            value += _between(rows, home, slopes[number], slopes[anchor], share, widest, block)
    for rows, slope in zip(members, slopes, strict=True):
        gradient[rows] += slope
    return value, gradient


def _within(A: Tensor, slope: Tensor, share: float, widest: Tensor, block: int) -> Tensor:
    total = A.new_zeros(())
    starts = range(0, len(A), block)
    for first in starts:
        here = slice(first, first + block)
        total += _pairs(A[here], A[here], slope[here], slope[here], share, widest)
        for second in range(first + block, len(A), block):
            there = slice(second, second + block)
            total += _pairs(A[here], A[there], slope[here], slope[there], 2 * share, widest)
    return total


def _between(
    A: Tensor, B: Tensor, slope_a: Tensor, slope_b: Tensor, share: float, widest: Tensor, block: int
) -> Tensor:
    total = A.new_zeros(())
    for first in range(0, len(A), block):
        here = slice(first, first + block)
        for second in range(0, len(B), block):
            there = slice(second, second + block)
            total += _pairs(A[here], B[there], slope_a[here], slope_b[there], share, widest)
    return total


def _pairs(A: Tensor, B: Tensor, slope_a: Tensor, slope_b: Tensor, share: float, widest: Tensor) -> Tensor:
    """`share` times the sum of the kernels over all pairs of a row of A and one of B; adds its gradients to the slopes.

    The kernel of width w has the gradient -2 (a - b) / w times itself with respect to a, and the opposite for b.
    """
    norms = A.square().sum(1)[:, None] + B.square().sum(1)
    power = torch.addmm(norms, A, B.T, alpha=-2).clamp_min_(0).div_(-widest).exp_()
    total, pull = power.sum(), power.clone()
    for number in range(1, KERNELS):
        power.square_()
        total += power.sum()
        pull.add_(power, alpha=2**number)
    pull.mul_(-2 * share / widest)
    slope_a.addcmul_(A, pull.sum(1)[:, None]).addmm_(pull, B, alpha=-1)
    slope_b.addcmul_(B, pull.sum(0)[:, None]).addmm_(pull.T, A, alpha=-1)
    return share * total
