"""The short-video data sets in their published layouts, small; the 5-core against a slow oracle."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oblivec.datasets import kuai, registry
from oblivec.datasets.interactions import Interactions
from oblivec.errors import BadInput

PEOPLE, VIDEOS = range(10, 17), range(100, 106)


def write_kuaisar(folder: Path, *, rows=None, header=None, features=None, dated: bool = False) -> Path:
    """Seven users click six videos each; user 99 and video 999 are too rare to stay; nobody's last row is a click."""
    folder.mkdir(parents=True, exist_ok=True)
    if rows is None:
        rows = [(user, video, user + video, 1) for user in PEOPLE for video in VIDEOS]
        rows += [(99, 100, 1, 1), (10, 999, 1, 1), *((user, 998, 10_000, 0) for user in PEOPLE)]
    def time(seconds: int) -> str:
        return f"2023-05-22 15:{seconds // 60:02d}:{seconds % 60:02d}" if dated else f"1.6847{seconds:08d}e+12"

    lines = [header or f"user_id,item_id,playing_time,{'time' if dated else 'timestamp'},click,like"]
    lines += [f"{u},{v},12.5,{time(t) if isinstance(t, int) else t},{c},0" for u, v, t, c in rows]
    (folder / "rec_inter.csv").write_text("\n".join(lines) + "\n")
    features = features or [(user, user % 3, "" if user == 12 else user % 2) for user in (*PEOPLE, 77)]
    lines = ["user_id,onehot_feat1,onehot_feat2", *(",".join(map(str, row)) for row in features)]
    (folder / "user_features.csv").write_text("\n".join(lines) + "\n")
    return folder


@pytest.mark.parametrize("inside", [".", "data"])
def test_kuaisar_keeps_clicks_and_the_core(tmp_path, inside):
    write_kuaisar(tmp_path / inside)
    dataset = registry.load("kuaisar", path=tmp_path)
    assert dataset.interactions.user_keys.tolist() == list(PEOPLE)
    assert dataset.interactions.item_keys.tolist() == list(VIDEOS)
    assert len(dataset.interactions) == len(PEOPLE) * len(VIDEOS)
    assert dataset.attributes["onehot_feat1"].counts.tolist() == [2, 3, 2]
    assert dataset.attributes["onehot_feat2"].missing == 1
    assert "1 users in the attribute table without interactions: left out" in dataset.notes
    assert any("the paper counts 25,473 users" in note for note in dataset.notes)
    assert set(dataset.split().test_items.tolist()) == {len(VIDEOS) - 1}


def test_kuaisar_reads_dates_where_there_is_no_unix_time(tmp_path):
    rows = [(user, video, user + video, 1) for user in PEOPLE for video in reversed(VIDEOS)]
    dataset = registry.load("kuaisar", path=write_kuaisar(tmp_path, rows=rows, dated=True))
    assert set(dataset.split().test_items.tolist()) == {len(VIDEOS) - 1}


GOOD = [(user, video, 5, 1) for user in PEOPLE for video in VIDEOS]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"header": "user_id,item_id,playing_time,timestamp,tapped,like"}, r"rec_inter\.csv: has no column 'click'"),
        ({"header": "user_id,item_id,playing_time,when,click,like"}, r"neither a column 'timestamp' nor 'time'"),
        ({"rows": [*GOOD, (10, "x1", 5, 1)]}, r"rec_inter\.csv: column 'item_id', row 43 is not a whole number"),
        ({"rows": [*GOOD, ("", 100, 5, 1)]}, r"rec_inter\.csv: column 'user_id', row 43 is empty"),
        ({"rows": [*GOOD, (10, 100, "soon", 1)], "dated": True}, r"column 'time', row 43 is not a time"),
        ({"rows": [(10, 100, 5, 0)]}, r"rec_inter\.csv: has no interaction"),
        ({"features": [(10, 1, 1), (11, 1, 1), (10, 2, 2)]}, r"user_features\.csv: column 'user_id', row 3 repeats"),
        ({"features": [("", 1, 1)]}, r"user_features\.csv: column 'user_id', row 1 is empty"),
    ],
)
def test_kuaisar_names_what_is_wrong(tmp_path, damage, message):
    with pytest.raises(BadInput, match=message) as caught:
        registry.load("kuaisar", path=write_kuaisar(tmp_path, **damage))
    assert "x1" not in str(caught.value)
    assert "soon" not in str(caught.value)


def test_kuaisar_says_where_to_get_it(tmp_path):
    with pytest.raises(BadInput, match=r"https://kuaisar\.github\.io/.*--path"):
        registry.load("kuaisar")
    with pytest.raises(BadInput, match="no such file or folder"):
        registry.load("kuaisar", path=tmp_path / "nowhere")
    with pytest.raises(BadInput, match=r"has no rec_inter\.csv"):
        registry.load("kuaisar", path=tmp_path)
    with pytest.raises(BadInput, match="cannot be fetched"):
        registry.fetch("kuaisar")


def _write_features(folder: Path) -> None:
    lines = ["user_id,other,onehot_feat0,onehot_feat1", *(f"{user},x,{user % 2},{user % 7}" for user in PEOPLE)]
    (folder / "user_features_pure.csv").write_text("\n".join(lines) + "\n")


def test_kuairand_derived_list_goes_by_row_order_and_ignores_its_split(tmp_path):
    rows = [(user, video) for user in PEOPLE for video in reversed(VIDEOS)]
    lines = ["user_id,video_id,split", *(f"{user},{video},test" for user, video in rows)]
    with gzip.open(tmp_path / "longview_interactions_derived.csv.gz", "wt") as file:
        file.write("\n".join(lines) + "\n")
    _write_features(tmp_path)
    dataset = registry.load("kuairand-pure", path=tmp_path)
    assert dataset.interactions.timestamps is None
    assert set(dataset.split().test_items.tolist()) == {0}
    assert dataset.attributes["onehot_feat0"].counts.tolist() == [4, 3]
    assert len(dataset.attributes["onehot_feat1"].classes) == 7


def test_kuairand_published_logs_go_by_time_over_several_files(tmp_path):
    for name, videos, time in (("4_08_to_4_21", VIDEOS[:3], 5), ("4_22_to_5_08", VIDEOS[3:], 3)):
        lines = ["user_id,video_id,date,time_ms,is_click,long_view"]
        lines += [f"{user},{video},20220408,{time},0,1" for user in PEOPLE for video in videos]
        lines += [f"{user},{VIDEOS[0]},20220408,9,1,0" for user in PEOPLE]
        (tmp_path / f"log_standard_{name}_pure.csv").write_text("\n".join(lines) + "\n")
    _write_features(tmp_path)
    dataset = registry.load("kuairand-pure", path=tmp_path)
    assert len(dataset.interactions) == len(PEOPLE) * len(VIDEOS)
    assert set(dataset.split().test_items.tolist()) == {2}
    assert dataset.users_decided_by_ties() == len(PEOPLE)


def test_kuairand_names_missing_files(tmp_path):
    with pytest.raises(BadInput, match=r"has no user_features_pure\.csv"):
        registry.load("kuairand-pure", path=tmp_path)
    _write_features(tmp_path)
    with pytest.raises(BadInput, match=r"has no log_standard"):
        registry.load("kuairand-pure", path=tmp_path)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=80), st.integers(1, 4))
def test_core_agrees_with_a_slow_oracle(rows, least):
    users, items = np.array(rows).T
    found = kuai.core(Interactions(users, items, None, np.arange(7) * 10, np.arange(7) * 100), least)
    pairs = set(rows)
    while True:
        kept = {
            (u, i) for u, i in pairs
            if sum(u == v for v, _ in pairs) >= least and sum(i == j for _, j in pairs) >= least
        }
        if kept == pairs:
            break
        pairs = kept
    keys = zip(found.user_keys[found.users] // 10, found.item_keys[found.items] // 100, strict=True)
    assert {(int(u), int(i)) for u, i in keys} == pairs
    assert len(found) == len(pairs)


def test_core_keeps_the_latest_of_repeated_rows():
    times = np.array([5, 9, 7])
    interactions = Interactions(np.zeros(3, int), np.array([0, 1, 0]), times, np.arange(1), np.arange(2))
    assert kuai.core(interactions, 1).timestamps.tolist() == [9, 7]  # type: ignore[union-attr]


@pytest.mark.slow
def test_a_long_log_is_read_in_bounded_memory(tmp_path):
    """4 million rows, half of them clicks, in a process of its own; 100 bytes a click over what the libraries take."""
    rng = np.random.default_rng(0)
    with (tmp_path / "rec_inter.csv").open("w") as file:
        file.write("user_id,item_id,playing_time,duration_ms,time,timestamp,click\n")
        for _ in range(40):
            users, items = rng.integers(0, 5000, 100_000), (rng.pareto(1.0, 100_000) * 100).astype(int)
            times, clicks = rng.integers(0, 10**9, 100_000) + 1_684_742_000_000, rng.integers(0, 2, 100_000)
            file.writelines(
                f"{u},{i},1000.0,60000.0,2023-05-22 15:53:20,{t}.0,{c}\n"
                for u, i, t, c in zip(users, items, times, clicks, strict=True)
            )
    (tmp_path / "user_features.csv").write_text(
        "user_id,onehot_feat1,onehot_feat2\n" + "".join(f"{user},{user % 8},{user % 3}\n" for user in range(5000))
    )
    program = (
        "import resource, sys; from oblivec.datasets import registry; import pyarrow.csv\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "found = registry.load('kuaisar', path=sys.argv[1]).statistics()\n"
        "print(found.users, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True)
    users, kilobytes = map(int, done.stdout.split())
    assert users == 5000
    assert kilobytes < 400_000
