"""Multi-kernel maximum mean discrepancy between classes and an anchor class, and its gradient, block by block.

Five Gaussian kernels exp(-distance^2 / width), each twice as wide as the one before, the middle one as wide as the mean
squared distance of two users. Only one exponential is taken per pair, that of the widest kernel: the others are its
2nd, 4th, 8th and 16th power. The gradient is written out. It needs the same pairs again, so none is kept: memory is
O(N d + block^2), work three products of O(d) per pair, and pairs within a class are visited once and not twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

KERNELS = 5
BLOCK = {"cpu": 384, "gpu": 8192}
"""Users on either side of a block of pairs: what stays in a core's cache, and what fills a GPU."""


def widest_kernel(X: Tensor) -> Tensor:
    """4 times the mean squared distance of two rows, which is 2 n / (n - 1) times the total variance."""
    mean_square = 2 * (X - X.mean(0)).square().sum() / max(len(X) - 1, 1)
    return (mean_square * 2 ** (KERNELS // 2)).clamp_min(torch.finfo(X.dtype).tiny)


def discrepancy(
    X: Tensor, members: Sequence[Tensor], anchor: int, widest: Tensor, block: int | None = None
) -> Tensor:
    """Sum over the other classes of the squared discrepancy to the class numbered `anchor`.

    `members` holds the rows of `X` in each class. The estimate is the one with the diagonal: never negative, zero for
    equal samples.
    """
    total, classes = X.new_zeros(()), _centred(X, members)
    for a, here, b, there, share in _blocks(members, anchor, block or _block(X)):
        power = _widest(classes[a][here], classes[b][there], widest)
        for number in range(KERNELS):
            total += share * power.sum()
            if number < KERNELS - 1:
                power.square_()
    return total


def discrepancy_gradient(
    X: Tensor, members: Sequence[Tensor], anchor: int, widest: Tensor, block: int | None = None
) -> Tensor:
    """Its gradient in `X`, the widths of the kernels taken as given.

    The kernel of width w has the gradient -2 (a - b) / w times itself with respect to a, and the opposite for b. With a
    column of ones beside the rows, one product gives both sums over partners that this needs.
    """
    classes = _centred(X, members)
    with_ones = [F.pad(rows, (0, 1), value=1.0) for rows in classes]
    sums = [torch.zeros_like(rows) for rows in with_ones]
    for a, here, b, there, share in _blocks(members, anchor, block or _block(X)):
        power = _widest(classes[a][here], classes[b][there], widest)
        pull = power.clone()
        for number in range(1, KERNELS):
            pull.add_(power.square_(), alpha=2**number)
        sums[a][here].addmm_(pull, with_ones[b][there], alpha=share)
        sums[b][there].addmm_(pull.T, with_ones[a][here], alpha=share)
    gradient = torch.zeros_like(X)
    for rows, own, around in zip(members, classes, sums, strict=True):
        gradient[rows] = (own * around[:, -1:] - around[:, :-1]) * (-2 / widest)
    return gradient


def _blocks(
    members: Sequence[Tensor], anchor: int, block: int
) -> Iterator[tuple[int, slice, int, slice, float]]:
    """Class and rows on either side of every block of pairs, and the weight of its pairs in the discrepancy."""
    starts = [range(0, len(rows), block) for rows in members]
    home = len(members[anchor])
    for number, rows in enumerate(members):
        share = (len(members) - 1 if number == anchor else 1) / len(rows) ** 2
        for first in starts[number]:
            here = slice(first, first + block)
            for second in starts[number]:
                if second >= first:  # the pairs on the other side of the diagonal are the same
                    there = slice(second, second + block)
                    yield number, here, number, there, share if second == first else 2 * share
            if number != anchor:
                for second in starts[anchor]:
                    yield number, here, anchor, slice(second, second + block), -2 / (len(rows) * home)


def _centred(X: Tensor, members: Sequence[Tensor]) -> list[Tensor]:
    """The classes around the common mean: distances do not notice, and lose fewer digits."""
    mean = X.mean(0)
    return [X[rows] - mean for rows in members]


def _widest(A: Tensor, B: Tensor, widest: Tensor) -> Tensor:
    """The widest kernel of all pairs. Norms come in with the product: rows (2 a, -|a|^2, 1) and (b, 1, -|b|^2)."""
    left = torch.cat([2 * A, -A.square().sum(1, keepdim=True), A.new_ones(len(A), 1)], 1)
    right = torch.cat([B, B.new_ones(len(B), 1), -B.square().sum(1, keepdim=True)], 1)
    return ((left / widest) @ right.T).exp_()


def _block(X: Tensor) -> int:
    return BLOCK["cpu" if X.device.type == "cpu" else "gpu"]
