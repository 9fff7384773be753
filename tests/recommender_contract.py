"""What every recommender must do, as a test class a new one inherits: set `name` and `settings`, nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from oblivec.datasets.interactions import LeaveOneOut
from oblivec.errors import BadInput, OblivecError
from oblivec.metrics import rank_test_items
from oblivec.recommenders import Recommender, load, recommender, save

EVERYONE = torch.arange(40)


def two_tastes() -> LeaveOneOut:
    """40 users, 20 items: users of one half like the first ten items, those of the other half the last ten.

    Each has seen eight of their ten; one of the other two is the test item. Any working model ranks it first or second.
    """
    liked = np.zeros((40, 20), dtype=np.float32)
    test = np.empty(40, dtype=np.int64)
    for user in range(40):
        first = 10 * (user % 2)
        liked[user, first : first + 10] = 1
        hidden = first + np.array([user // 2 % 10, (user // 2 + 3) % 10])
        liked[user, hidden] = 0
        test[user] = hidden[0]
    return LeaveOneOut(csr_matrix(liked), test, "file-order")


class RecommenderContract:
    name: ClassVar[str]
    settings: ClassVar[dict[str, Any]]

    @pytest.fixture(scope="class")
    @classmethod
    def split(cls) -> LeaveOneOut:
        return two_tastes()

    @classmethod
    def fit(cls, split: LeaveOneOut, seed: int = 0, **changes: Any) -> Recommender:
        return recommender(cls.name, **(cls.settings | changes)).fit(split, seed=seed, device="cpu")

    @pytest.fixture(scope="class")
    @classmethod
    def model(cls, split: LeaveOneOut) -> Recommender:
        return cls.fit(split)

    def test_known_answer(self, model: Recommender, split: LeaveOneOut) -> None:
        assert rank_test_items(model.scores, split).hit_ratio(2) == 100.0

    def test_training_lowers_the_loss(self, model: Recommender) -> None:
        assert len(model.losses) == model.config.epochs
        assert model.losses[-1] < 0.9 * model.losses[0]

    def test_the_user_matrix_has_the_shape_it_says(self, model: Recommender) -> None:
        matrix = model.user_matrix()
        assert matrix.shape == (40, sum(model.user_blocks.values()))
        assert matrix.dtype == np.float32
        assert np.isfinite(matrix).all()

    def test_a_returned_matrix_is_a_copy(self, model: Recommender) -> None:
        before = model.user_matrix()
        model.user_matrix()[:] = 0
        assert np.array_equal(before, model.user_matrix())

    def test_dot_product_models_say_so(self, model: Recommender) -> None:
        items = model.item_matrix()
        assert (items is not None) == model.is_dot_product
        if items is not None:
            expected = model.user_matrix() @ items.T
            np.testing.assert_allclose(model.scores(EVERYONE).numpy(), expected, rtol=1e-5, atol=1e-6)

    def test_replacing_the_users_by_themselves_changes_no_score(self, model: Recommender) -> None:
        assert torch.equal(model.with_user_matrix(model.user_matrix()).scores(EVERYONE), model.scores(EVERYONE))

    def test_scores_follow_the_replaced_matrix_row_by_row(self, model: Recommender) -> None:
        order = torch.randperm(40, generator=torch.Generator().manual_seed(0))
        before = model.scores(EVERYONE)
        shuffled = model.with_user_matrix(model.user_matrix()[order.numpy()])
        torch.testing.assert_close(shuffled.scores(EVERYONE), before[order])
        assert torch.equal(model.scores(EVERYONE), before)

    def test_scores_of_some_users_are_those_rows_of_all(self, model: Recommender) -> None:
        some = torch.tensor([7, 3, 39])
        torch.testing.assert_close(model.scores(some), model.scores(EVERYONE)[some])

    def test_a_matrix_of_another_shape_is_refused(self, model: Recommender) -> None:
        with pytest.raises(BadInput, match="user matrix"):
            model.with_user_matrix(model.user_matrix()[:, :-1])

    def test_the_same_seed_gives_the_same_bits(self, split: LeaveOneOut) -> None:
        one, same, other = (self.fit(split, seed, epochs=2) for seed in (0, 0, 1))
        assert all(torch.equal(one.tensors[name], same.tensors[name]) for name in one.tensors)
        assert not torch.equal(one.users, other.users)

    def test_watching_changes_nothing(self, split: LeaveOneOut) -> None:
        seen: list[int] = []
        unfitted = recommender(self.name, **dict(self.settings, epochs=3))
        watched = unfitted.fit(
            split, device="cpu", watch=lambda epoch, current: seen.append(epoch * len(current.scores(EVERYONE)))
        )
        assert seen == [40, 80, 120]
        assert torch.equal(watched.users, self.fit(split, epochs=3).users)

    def test_the_test_items_are_never_looked_at(self, split: LeaveOneOut) -> None:
        blind = LeaveOneOut(split.train, np.full(40, -1), split.tie_rule)
        assert torch.equal(self.fit(blind, epochs=2).users, self.fit(split, epochs=2).users)

    def test_save_and_load_keep_every_bit(self, model: Recommender, tmp_path: Path) -> None:
        save(model, tmp_path)
        loaded = load(tmp_path)
        assert loaded.config == model.config
        assert loaded.tensors.keys() == model.tensors.keys()
        assert all(torch.equal(loaded.tensors[name], model.tensors[name]) for name in model.tensors)
        assert torch.equal(loaded.scores(EVERYONE), model.scores(EVERYONE))

    def test_refit_wins_back_what_a_disturbed_matrix_lost(self, model: Recommender, split: LeaveOneOut) -> None:
        noise = np.random.default_rng(0).standard_normal(model.user_matrix().shape).astype(np.float32)
        disturbed = model.with_user_matrix(model.user_matrix() + noise * model.user_matrix().std())
        before = {name: tensor.clone() for name, tensor in disturbed.tensors.items()}
        refitted = disturbed.refit_items(split, epochs=20, device="cpu")
        assert refitted.losses[-1] < refitted.losses[0]
        assert torch.equal(refitted.users, disturbed.users)
        assert all(torch.equal(disturbed.tensors[name], before[name]) for name in before)
        assert not torch.equal(refitted.scores(EVERYONE), disturbed.scores(EVERYONE))

    def test_unknown_settings_are_refused(self) -> None:
        with pytest.raises(BadInput, match="no_such_setting"):
            recommender(self.name, no_such_setting=1)

    def test_out_of_range_settings_are_refused(self) -> None:
        with pytest.raises(BadInput, match="epochs"):
            recommender(self.name, epochs=0)

    def test_an_unfitted_model_says_so(self) -> None:
        with pytest.raises(OblivecError, match="not fitted"):
            recommender(self.name).user_matrix()

    def test_users_and_items_without_interactions_are_no_obstacle(self) -> None:
        liked = np.zeros((5, 6), dtype=np.float32)
        liked[0, :2] = liked[1, 1:4] = 1
        liked[2] = 1  # has seen everything: nothing to contrast with
        split = LeaveOneOut(csr_matrix(liked), np.full(5, -1), "file-order")
        scores = self.fit(split, epochs=2).scores(torch.arange(5))
        assert torch.isfinite(scores).all()

    def test_an_empty_training_set_is_bad_input(self) -> None:
        with pytest.raises(BadInput, match="no interactions"):
            self.fit(LeaveOneOut(csr_matrix((3, 4), dtype=np.float32), np.full(3, -1), "file-order"))

    def test_the_paper_preset_keeps_what_is_printed(self) -> None:
        printed = {"ncf": (32, 20), "lightgcn": (32, 100), "multvae": (200, 20)}
        config = recommender(self.name, preset="paper").config
        assert (config.dimensions, config.epochs) == printed[self.name]
        assert config.learning_rate == 1e-3

    @pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
    def test_the_gpu_learns_it_too(self, split: LeaveOneOut) -> None:
        model = recommender(self.name, **self.settings).fit(split, device="cuda")
        assert model.users.device.type == "cuda"
        assert rank_test_items(model.scores, split, device="cuda").hit_ratio(2) == 100.0
        torch.testing.assert_close(
            model.to("cpu").scores(EVERYONE), model.scores(EVERYONE.cuda()).cpu(), rtol=1e-3, atol=1e-4
        )
