"""How attackers look at a matrix: rows, gradients and moves agree, and rows are taken apart where lengths differ."""

from __future__ import annotations

import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier
from torch import Tensor

from calibrator_contract import balanced_accuracy, coins, noise, target_of
from oblivec.calibration import space as space_module
from oblivec.calibration.geometry import Geometry
from oblivec.calibration.removal import RemovalConfig, remove
from oblivec.calibration.space import Space

N, D = 50, 4
EVERYBODY = torch.arange(N)


def geometries() -> dict[str, Geometry]:
    to = noise(D, D, 1) + 2 * torch.eye(D)
    back = torch.linalg.inv(to)
    return {"linear": Geometry(to, back), "unit rows": Geometry(to, back, noise(1, D, 2)[0])}


@pytest.mark.parametrize("kind", geometries())
def test_slopes_are_gradients_in_coordinates(kind: str) -> None:
    geometry, X, weights = geometries()[kind], noise(N, D, 3).requires_grad_(), noise(N, D, 4)
    (expected,) = torch.autograd.grad((geometry.see(X).rows * weights).sum(), X)
    found = geometry.see(X.detach()).slopes(EVERYBODY, weights[:, None])[:, 0]
    assert torch.allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize("kind", geometries())
def test_moves_are_seen_as_what_rows_change_by(kind: str) -> None:
    geometry, X, move = geometries()[kind], noise(N, D, 3), noise(N, D, 5)
    little = 1e-2
    changed = (geometry.see(X + little * move).rows - geometry.see(X - little * move).rows) / (2 * little)
    assert torch.allclose(geometry.see(X).moved(move), changed, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("kind", geometries())
def test_ways_go_up_by_the_gradient_as_the_geometry_measures_it(kind: str) -> None:
    """To first order a value rises by its gradient times the way: that is the gradient's squared length as seen."""
    geometry, X, gradients = geometries()[kind], noise(N, D, 3), noise(N, D, 4)[:, None]
    seen = geometry.see(X)
    rise = (seen.slopes(EVERYBODY, gradients) * seen.ways(EVERYBODY, gradients)).sum(2)[:, 0]
    way = seen.ways(EVERYBODY, gradients)[:, 0]
    assert torch.allclose(rise, seen.moved(way).square().sum(1), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("uneven", [False, True])
def test_rows_of_a_space_are_the_directions_of_the_matrix(uneven: bool) -> None:
    U = noise(300, 6) + 1.0
    if uneven:
        U = U * torch.exp(noise(300, 1, 9))
    U[:, 5] = 2.0 * U[:, 4]  # unused directions have no coordinate
    space = Space.of(U)
    assert bool(space.typical) == uneven
    rows = Geometry(*space.rows).see(space.encode(U)).rows
    assert torch.allclose(rows, U / U.norm(dim=1, keepdim=True), atol=1e-4)


def test_a_row_at_the_origin_stays_finite() -> None:
    geometry = Geometry(torch.eye(D), torch.eye(D), torch.zeros(D))
    X = noise(N, D)
    X[0] = 0.0
    seen = geometry.see(X)
    for found in (seen.rows, seen.slopes(EVERYBODY, X[:, None]), seen.ways(EVERYBODY, X[:, None]), seen.moved(X)):
        assert bool(found.isfinite().all())


def test_rows_are_taken_apart_where_lengths_are_a_property_of_their_own() -> None:
    plain, lengths = noise(2000, 16), torch.exp(0.4 * noise(2000, 1, 7))
    assert not Space.of(plain).typical
    assert not Space.of(noise(2000, 2)).typical  # of few dimensions, lengths differ as much by themselves
    assert Space.of(plain * lengths).typical
    assert not Space.of(plain * lengths.pow(0.4)).typical
    again = Space.of(plain * lengths)
    assert torch.allclose(again.decode(again.encode(plain * lengths)), plain * lengths, atol=1e-4)


def leaning_clusters(seed: int = 0, n: int = 4000, d: int = 24, clusters: int = 12) -> tuple[Tensor, Tensor]:
    """Clusters of directions that lean to a group, and lengths that are nobody's group."""
    centres, favoured, cluster = noise(clusters, d, seed), coins(clusters, 2, seed), coins(n, clusters, seed + 100)
    directions = 0.6 * centres[cluster] + noise(n, d, seed + 300)
    rows = directions / directions.norm(dim=1, keepdim=True) * torch.exp(0.5 * noise(n, 1, seed + 200))
    leans = torch.rand(n, generator=torch.Generator().manual_seed(seed)) < 0.7
    return rows, torch.where(leans, favoured[cluster], coins(n, 2, seed + 500))


def read_by_directions(U: Tensor, labels: Tensor) -> float:
    """What nearest neighbours by cosine similarity read, in points from chance."""
    unit_rows = U / U.norm(dim=1, keepdim=True)
    return 100 * (balanced_accuracy(KNeighborsClassifier(40), unit_rows, labels.numpy()) - 0.5)


@pytest.mark.slow
def test_who_compares_directions_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    U, labels = leaning_clusters()
    assert read_by_directions(U, labels) > 20
    released = remove(U, [target_of(labels)], RemovalConfig.model_validate({}), 0, "a")
    assert abs(read_by_directions(released, labels)) < 2.4  # three standard errors
    monkeypatch.setattr(space_module, "UNEVEN", float("inf"))
    as_rows = remove(U, [target_of(labels)], RemovalConfig.model_validate({}), 0, "a")
    assert abs(read_by_directions(as_rows, labels)) < 2.4
    assert float((released - U).norm()) < 0.8 * float((as_rows - U).norm())  # taken apart, rows go less far
