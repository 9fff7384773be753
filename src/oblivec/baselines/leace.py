"""`leace`: least-squares concept erasure (Belrose et al., 2023), all required attributes jointly, in closed form.

Of all affine maps that leave no linear information about the attributes, the one that moves the embeddings least in the
mean square: whiten, project out the directions in which embeddings and labels covary, go back. The map looks at the
embedding alone, so users without a label are served as well. What is not linear (variances, shapes, interactions)
stays. O(N d^2).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from oblivec.baselines.base import BaselineConfig, ReleaseBaseline, register
from oblivec.datasets.attributes import Attribute
from oblivec.information.target import Target


class LeaceConfig(BaselineConfig):
    """What counts as zero."""

    narrowest: float = Field(1e-12, ge=0, lt=1)
    """Smallest variance of a direction, relative to the widest, that counts as used. Narrower ones hold rounding
    errors; every row gets the mean there, so that no label can be read from them."""
    weakest: float = Field(1e-8, ge=0, lt=1)
    """Smallest correlation of a direction with the labels that is erased; smaller ones are rounding errors."""


@register
class Leace(ReleaseBaseline):
    name = "leace"
    Config = LeaceConfig
    config: LeaceConfig

    def _edit(
        self, U: Tensor, attributes: Sequence[Attribute], items: Tensor | None, seed: int
    ) -> tuple[Tensor, dict[str, Any]]:
        X = U.double()
        mean = X.mean(0)
        variances, directions = torch.linalg.eigh((X - mean).T @ (X - mean) / len(X))
        used = variances > self.config.narrowest * variances[-1].clamp_min(1e-300)
        widths, basis = variances[used].sqrt(), directions[:, used]
        white = (X - mean) @ basis / widths
        covariances = torch.cat([_covariance(white, Target.of(one, U.device)) for one in attributes], dim=1)
        left, correlations, _ = torch.linalg.svd(covariances, full_matrices=False)
        erased = left[:, correlations > self.config.weakest]
        facts: dict[str, Any] = {"directions": int(used.sum()), "directions_erased": erased.shape[1]}
        if erased.shape[1] == 0:
            return U.clone(), facts | {"notes": ["no linear signal to erase: the matrix is unchanged"]}
        if erased.shape[1] == len(widths):
            facts["notes"] = ["the attributes take up every direction: all users get the same row"]
        kept = white - white @ erased @ erased.T
        return (mean + kept * widths @ basis.T).float(), facts


def _covariance(white: Tensor, target: Target) -> Tensor:
    """d x k covariances, over the labelled users, of whitened embeddings and the label in columns of unit variance."""
    labels = F.one_hot(target.labels, target.n_classes) if target.n_classes else target.labels[:, None]
    centred = labels.double() - labels.double().mean(0)
    deviations = centred.square().mean(0).sqrt()
    varying = deviations > 1e-12  # an empty class, or one that everybody is in, has nothing to covary with
    return white[target.rows].T @ (centred[:, varying] / deviations[varying]) / len(target.rows)
