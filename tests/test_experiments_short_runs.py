"""A short run of each experiment on real data. A file of its own: its neighbours change what a quick run is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from oblivec.cli.app import run

OTHERS = ("efficiency", "epsilon", "ablation", "correlated", "bound")


@pytest.mark.slow
@pytest.mark.network
def test_a_short_run_of_each_on_movielens(tmp_path: Path) -> None:
    """Wide enough for one seed of a model of a few epochs, tight enough to fail when a method breaks."""
    results = {}
    for name in OTHERS:
        assert run(["reproduce", name, "--quick", "--out", str(tmp_path), "--models", str(tmp_path), "--quiet"]) == 0
        results[name] = json.loads((tmp_path / f"{name}.json").read_text())["result"]
    by = {one["method"]: one for one in results["ablation"]["rows"]}
    assert by["original"]["worst"]["age"]["points"] > 12
    assert by["ec-ac"]["worst"]["gender"]["points"] > by["original"]["worst"]["gender"]["points"]  # labels written
    assert max(abs(one["points"]) for one in by["lego"]["worst"].values()) < 5
    curve = {(one["method"], one["radius"]): one for one in results["epsilon"]["rows"]}
    original, near, far = (curve["lego", radius]["worst_points"] for radius in ("0", "0.2", "inf"))
    assert original > 2 * near
    assert original > 2 * far
    read = {(one["method"], one["protected"]): one["worst"] for one in results["correlated"]["rows"]}
    assert abs(read["lego", "gender+occupation"]["gender"]["points"]) < 5
    assert abs(read["lego", "gender"]["gender"]["points"]) < 5
    assert read["lego", "occupation"]["gender"]["points"] > 6  # what is not asked for is not protected
    sums = {one["method"]: one["fresh_q"] for one in results["bound"]["rows"]}
    assert sums["paper-tuned"]["P1"]["mean"] < 0.6 * sums["paper-tuned"]["original"]["mean"]
    assert sums["paper-tuned"]["P2"]["mean"] < 0.6 * sums["paper-tuned"]["original"]["mean"]
    assert sums["paper"]["P1"]["mean"] > sums["paper"]["original"]["mean"]  # the lagging q
    seconds = results["efficiency"]["cases"][0]["seconds"]
    assert seconds["lego"]["increase"] < seconds["lego"]["3"]
    assert seconds["d2dfr-stored"]["increase"] < seconds["d2dfr"]["increase"]
    assert all(value > 0 for by_what in seconds.values() for value in by_what.values())
