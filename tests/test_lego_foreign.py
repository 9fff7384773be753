"""Every method survives every matrix from elsewhere: shapes, finite numbers, users without an embedding, new users."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oblivec.calibration.base import REGISTRY
from oblivec.combination.partners import methods
from oblivec.datasets.foreign import KINDS, foreign_matrix
from oblivec.lego import Lego

SHORT: dict[str, dict[str, Any]] = {
    "lego": {"rounds": 6, "clip_every": 3, "unsayings": 3,
             "combination": {"rounds": 4, "unsayings": 3}},
    "paper": {"steps": 5, "combination": {"steps": 2}},
    "paper-tuned": {"steps": 5, "combination": {"steps": 2}},
}
"""Settings that only make loops short."""
FORMS = [(method, False) for method in methods()] + [
    (method, True) for method in methods() if "label_free" in REGISTRY[method].Config.model_fields
]


def release_of(method: str, label_free: bool, kind: str, users: int, dimensions: int, seed: int) -> None:
    made = foreign_matrix(kind, users, dimensions, seed)
    lego = Lego(method, seed=seed, device="cpu", jobs=1, label_free=label_free, **SHORT.get(method, {}))
    release = lego.fit(made.embeddings, made.attributes).protect(list(made.attributes))
    assert release.shape == made.embeddings.shape
    assert release.dtype == np.float32
    assert np.isfinite(release).all()
    served = lego.transform(np.r_[made.embeddings[:3], np.zeros((1, dimensions), np.float32)], list(made.attributes))
    assert served.shape == (4, dimensions)
    assert np.isfinite(served).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("method", "label_free"), FORMS)
def test_a_release_is_whole(method: str, label_free: bool, kind: str) -> None:
    release_of(method, label_free, kind, 300, 16, 0)


@given(
    form=st.sampled_from(FORMS), kind=st.sampled_from(sorted(KINDS)), users=st.integers(10, 120),
    dimensions=st.integers(4, 40), seed=st.integers(0, 10),
)
@settings(max_examples=15, deadline=None, derandomize=True)
def test_whatever_its_size(form: tuple[str, bool], kind: str, users: int, dimensions: int, seed: int) -> None:
    release_of(*form, kind, users, dimensions, seed)
