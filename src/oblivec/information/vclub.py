"""vCLUB: the paper's estimate of how much an embedding says about an attribute, without its B x B double sum.

Equation (hat-vclub) compares every user's own label with everybody's labels:

    I = 1/B^2 sum_i sum_j [ log q(y_i | x_i) - log q(y_j | x_i) ].

The inner mean over j depends on the labels only through how often each class occurs (categorical) or through their mean
and variance (Gaussian q, whose log density is a quadratic in y). Both forms below use that and are exact.

Given those marginals the estimate is a mean of one term per user. Hence every function takes the marginal of the whole
sample as an argument: a sample too large for the memory can be summed in parts.

The label-free forms average over q(y | x) wherever the sampled forms have a label. They equal
E_x[KL(q_x || m) + KL(m || q_x)] with m = E_x[q_x], so they are never negative; the sampled ones have no floor.
"""

from __future__ import annotations

import torch
from torch import Tensor


def class_shares(labels: Tensor, n_classes: int) -> Tensor:
    """How often each class occurs among the labels (int64 codes); sums to 1."""
    return torch.bincount(labels, minlength=n_classes).float() / max(len(labels), 1)


def vclub(log_q: Tensor, labels: Tensor, shares: Tensor | None = None) -> Tensor:
    """Equation (hat-vclub) for a categorical attribute: (1/B) sum_j log q(y_j | x_i) = sum_c p_c log q(c | x_i).

    `log_q` is B x C with finite entries, `labels` are codes, `shares` the class shares p of the whole sample (of these
    labels when not given). O(B C).
    """
    if shares is None:
        shares = class_shares(labels, log_q.shape[1])
    own = log_q.gather(1, labels[:, None]).squeeze(1)
    return (own - log_q @ shares.to(log_q)).mean()


def label_free_vclub(log_q: Tensor, shares: Tensor | None = None) -> Tensor:
    """The same two terms with q(. | x_i) for the label of user i, and its mean over users for the class shares."""
    q = log_q.exp()
    if shares is None:
        shares = q.mean(dim=0)
    return ((q - shares.to(q)) * log_q).sum(dim=1).mean()


def moments(values: Tensor) -> Tensor:
    """Mean and (population) variance of the values, as one tensor of two."""
    return torch.stack([values.mean(), values.var(correction=0)])


def gaussian_vclub(mean: Tensor, variance: Tensor, values: Tensor, marginal: Tensor | None = None) -> Tensor:
    """Equation (hat-vclub) for q(a | x_i) = N(mean_i, variance_i); `marginal` are the `moments` of the whole sample.

    (1/B) sum_j (a_j - mean_i)^2 = (m - mean_i)^2 + v for values of mean m and variance v. The terms in log variance_i
    are the same for every j and cancel. O(B).
    """
    centre, spread = moments(values) if marginal is None else marginal
    others = (centre - mean).square() + spread
    return ((others - (values - mean).square()) / (2 * variance)).mean()


def label_free_gaussian_vclub(mean: Tensor, variance: Tensor, marginal: Tensor | None = None) -> Tensor:
    """The same with a drawn from q: the own term's square is then variance_i, the marginal the mixture of all q."""
    centre, spread = mixture_moments(mean, variance) if marginal is None else marginal
    others = (centre - mean).square() + spread
    return ((others - variance) / (2 * variance)).mean()


def mixture_moments(mean: Tensor, variance: Tensor) -> Tensor:
    """Mean and variance of the equal mixture of the Gaussians N(mean_i, variance_i)."""
    return torch.stack([mean.mean(), variance.mean() + mean.var(correction=0)])
