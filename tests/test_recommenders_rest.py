"""Yardsticks, and models on disk."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from oblivec.datasets.interactions import LeaveOneOut
from oblivec.errors import BadInput
from oblivec.metrics import rank_test_items
from oblivec.recommenders import Ease, MostPopular, Recommender, load, recommender, save
from recommender_contract import two_tastes


@pytest.fixture(scope="module")
def model() -> Recommender:
    return recommender("lightgcn", epochs=1, dimensions=4).fit(two_tastes(), device="cpu")


def test_ease_solves_the_constrained_ridge_problem() -> None:
    """Every column is the ridge regression of that item on the others, solved here one by one."""
    seen = (np.random.default_rng(0).random((30, 6)) < 0.4).astype(np.float64)
    split = LeaveOneOut(csr_matrix(seen), np.full(30, -1), "file-order")
    found = Ease(l2=3.0).fit(split).scores(torch.arange(30)).numpy()
    for item in range(6):
        others = np.delete(seen, item, axis=1)
        weights = np.linalg.solve(others.T @ others + 3.0 * np.eye(5), others.T @ seen[:, item])
        np.testing.assert_allclose(found[:, item], others @ weights, rtol=1e-4, atol=1e-5)


def test_ease_finds_the_two_tastes() -> None:
    split = two_tastes()
    assert rank_test_items(Ease(l2=10.0).fit(split).scores, split).hit_ratio(2) == 100.0


def test_ease_refuses_a_catalogue_it_cannot_hold() -> None:
    with pytest.raises(BadInput, match="dense"):
        Ease().fit(LeaveOneOut(csr_matrix((2, 50_000), dtype=np.float32), np.full(2, -1), "file-order"))


def test_most_popular_counts() -> None:
    split = LeaveOneOut(csr_matrix(np.array([[1, 0, 1], [0, 0, 1.0]])), np.array([1, 0]), "file-order")
    assert MostPopular().fit(split).scores(torch.tensor([1, 0])).tolist() == [[1, 0, 2], [1, 0, 2]]


def test_ids_go_with_the_user_matrix(model: Recommender, tmp_path: Path) -> None:
    from oblivec.files.embeddings import read_embeddings

    save(model, tmp_path / "numbers", np.arange(100, 140))
    save(model, tmp_path / "texts", np.array([f"user {i}" for i in range(40)]))
    for name, ids in (("numbers", [str(i) for i in range(100, 140)]), ("texts", [f"user {i}" for i in range(40)])):
        stored = read_embeddings(tmp_path / name / "users.safetensors")
        assert stored.ids is not None
        assert stored.ids.tolist() == ids
        assert np.array_equal(stored.values, model.user_matrix())


def test_a_release_put_in_the_directory_is_what_scores(model: Recommender, tmp_path: Path) -> None:
    save(model, tmp_path)
    save(model.with_user_matrix(-model.user_matrix()), tmp_path)
    torch.testing.assert_close(load(tmp_path).scores(torch.arange(40)), -model.scores(torch.arange(40)))


def test_no_pickle_is_written(model: Recommender, tmp_path: Path) -> None:
    save(model, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"model.json", "users.safetensors", "items.safetensors"}


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        ("model.json", None, "oblivec train"),
        ("model.json", b"{", "JSON"),
        ("model.json", b'{"model": "svd"}', "known model"),
        ("users.safetensors", None, "incomplete"),
        ("items.safetensors", b"\x80\x04pickle", "safetensors"),
    ],
)
def test_a_damaged_model_is_bad_input(
    model: Recommender, tmp_path: Path, file: str, content: bytes | None, says: str
) -> None:
    save(model, tmp_path)
    (tmp_path / file).unlink()
    if content is not None:
        (tmp_path / file).write_bytes(content)
    with pytest.raises(BadInput, match=says):
        load(tmp_path)


def test_unknown_settings_on_disk_are_refused(model: Recommender, tmp_path: Path) -> None:
    save(model, tmp_path)
    described = json.loads((tmp_path / "model.json").read_text())
    described["settings"]["surprise"] = 1
    (tmp_path / "model.json").write_text(json.dumps(described))
    with pytest.raises(BadInput, match="surprise"):
        load(tmp_path)


def test_unknown_models_and_presets_are_refused() -> None:
    with pytest.raises(BadInput, match="lightgcn"):
        recommender("svd")
    with pytest.raises(BadInput, match="paper"):
        recommender("ncf", preset="best")
