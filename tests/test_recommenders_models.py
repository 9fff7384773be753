"""Each recommender inherits the contract; what is particular to one is tested below it."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from oblivec.datasets.interactions import LeaveOneOut
from oblivec.recommenders.base import Recommender
from oblivec.recommenders.lightgcn import Graph, LightGCN, bpr_loss, hardest
from oblivec.recommenders.multvae import MultVAE, Rows, multinomial_loss
from oblivec.recommenders.ncf import NCF
from oblivec.recommenders.sampling import Pairs, batches
from recommender_contract import EVERYONE, RecommenderContract, two_tastes


class TestNCF(RecommenderContract):
    name = "ncf"
    settings: ClassVar[dict[str, Any]] = {
        "epochs": 5, "dimensions": 8, "steps_per_epoch": 20, "learning_rate": 0.01, "dropout": 0.0,
    }

    def test_scoring_agrees_with_the_training_pass(self, model: Recommender, split: LeaveOneOut) -> None:
        assert isinstance(model, NCF)
        trainer: Any = model._refit_trainer(split, 0, torch.device("cpu"))
        rows = model.users.repeat_interleave(20, dim=0)
        with torch.no_grad():
            logits = trainer._logits(rows, model.tensors["items"].repeat(40, 1)).view(40, 20)
        torch.testing.assert_close(model.scores(EVERYONE), logits, rtol=1e-4, atol=1e-5)

    def test_the_hardest_candidate_has_the_highest_score(self, model: Recommender, split: LeaveOneOut) -> None:
        trainer: Any = model._refit_trainer(split, 0, torch.device("cpu"))
        chosen = trainer._hardest(EVERYONE, torch.arange(20).expand(40, 20))
        assert torch.equal(chosen, model.scores(EVERYONE).argmax(1))

    def test_both_user_tables_are_exposed(self, model: Recommender) -> None:
        assert list(model.user_blocks.items()) == [("gmf", 8), ("mlp", 8)]
        for block in (slice(0, 8), slice(8, 16)):
            changed = model.user_matrix()
            changed[:, block] = 0
            assert not torch.allclose(model.with_user_matrix(changed).scores(EVERYONE), model.scores(EVERYONE))


class TestLightGCN(RecommenderContract):
    name = "lightgcn"
    settings: ClassVar[dict[str, Any]] = {
        "epochs": 20, "dimensions": 8, "steps_per_epoch": 20, "learning_rate": 0.01, "candidates": 2,
    }

    def test_propagation_is_the_mean_of_the_powers_of_the_normalised_adjacency(self) -> None:
        train = two_tastes().train
        users, items = torch.randn(40, 3), torch.randn(20, 3)
        adjacency = np.zeros((60, 60))
        adjacency[:40, 40:] = train.toarray()
        adjacency += adjacency.T
        scale = 1 / np.sqrt(adjacency.sum(1))
        adjacency = scale[:, None] * adjacency * scale[None]
        start = torch.cat([users, items]).double().numpy()
        expected = sum(np.linalg.matrix_power(adjacency, layer) @ start for layer in range(4)) / 4
        found = Graph(train, 3, "cpu").propagate(torch.cat([users, items]))
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-5)

    @pytest.mark.parametrize("layers", [0, 1, 3])
    def test_the_written_out_gradient_is_the_one_autograd_finds(self, layers: int) -> None:
        trainer: Any = LightGCN.configure(layers=layers, l2=0.5)._trainer(two_tastes(), 0, torch.device("cpu"))
        users, positives = torch.tensor([0, 1, 1, 7]), torch.tensor([0, 15, 15, 12])  # repeated rows add up
        negatives = torch.tensor([[11], [3], [4], [15]])
        loss, gradient = trainer.loss_and_gradient(users, positives, negatives)

        table = trainer.table.clone().requires_grad_()
        adjacency = trainer.graph._adjacency.to_dense()
        powers = [torch.linalg.matrix_power(adjacency, layer) for layer in range(layers + 1)]
        final = torch.stack([power @ table for power in powers]).mean(0)
        seen_and_not = 40 + torch.cat([positives, negatives[:, 0]])
        expected = bpr_loss(final[users], *final[seen_and_not].chunk(2))
        norms = table[users].square().sum() + table[seen_and_not].square().sum()
        (expected + 0.5 / 2 * norms / len(users)).backward()
        torch.testing.assert_close(loss, expected.detach())
        assert table.grad is not None
        torch.testing.assert_close(gradient, table.grad)

    def test_the_hardest_candidate_has_the_highest_score(self) -> None:
        users, items = torch.eye(2), torch.tensor([[1.0, 0.0], [2.0, -1.0], [0.0, 3.0]])
        assert hardest(users, items, torch.tensor([[0, 1], [0, 2]])).tolist() == [1, 2]
        assert hardest(users, items, torch.tensor([[0], [1]])).tolist() == [0, 1]


class TestMultVAE(RecommenderContract):
    name = "multvae"
    settings: ClassVar[dict[str, Any]] = {
        "epochs": 30, "dimensions": 8, "hidden": 16, "steps_per_epoch": 10, "learning_rate": 0.01,
    }

    def test_the_user_matrix_is_what_the_encoder_says(self, model: Recommender, split: LeaveOneOut) -> None:
        assert isinstance(model, MultVAE)
        np.testing.assert_allclose(model.encode(split.train), model.user_matrix(), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(model.encode(split.train[5:7]), model.user_matrix()[5:7], rtol=1e-4, atol=1e-5)

    def test_rows_come_in_the_order_asked_for(self) -> None:
        train = csr_matrix(np.array([[1, 0, 1], [0, 0, 0], [0, 1, 0]], dtype=np.float32))
        row, item = Rows(train, "cpu").of(torch.tensor([2, 1, 0]))
        assert row.tolist() == [0, 2, 2]
        assert item.tolist() == [1, 0, 2]

    def test_the_loss_is_the_multinomial_likelihood(self) -> None:
        logits = torch.randn(3, 5)
        seen = torch.tensor([[1, 0, 1, 0, 0], [0, 0, 0, 0, 0], [0, 1, 1, 1, 0]])
        row, item = seen.nonzero(as_tuple=True)
        expected = -(logits.log_softmax(1) * seen).sum(1).mean()
        torch.testing.assert_close(multinomial_loss(logits, row, item), expected)


def test_negatives_are_unseen_and_uniform() -> None:
    train = csr_matrix(np.array([[1, 0, 0, 1, 0], [1, 1, 1, 1, 0], [1, 1, 1, 1, 1]], dtype=np.float32))
    pairs = Pairs(LeaveOneOut(train, np.full(3, -1), "file-order"), "cpu")
    assert len(pairs) == 6  # the third user has nothing unseen
    drawn = pairs.negatives(torch.zeros(30_000, dtype=torch.int64), torch.Generator().manual_seed(0))
    shares = torch.bincount(drawn, minlength=5) / 30_000
    torch.testing.assert_close(shares, torch.tensor([0, 1 / 3, 1 / 3, 0, 1 / 3]), rtol=0, atol=0.02)
    assert set(pairs.negatives(torch.ones(100, dtype=torch.int64), torch.Generator()).tolist()) == {4}


def test_batches_hold_every_example_once() -> None:
    pieces = list(batches(10, 4, torch.Generator().manual_seed(0)))
    assert [len(piece) for piece in pieces] == [4, 4, 2]
    assert sorted(torch.cat(pieces).tolist()) == list(range(10))
