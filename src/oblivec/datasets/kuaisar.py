"""KuaiSAR-small: clicks in the recommendation feed of a short-video app, and two anonymised features of its users.

The features are anonymised by the publisher and keep their names: nobody outside knows what they mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from oblivec.datasets.dataset import Dataset, attribute_notes
from oblivec.datasets.entry import NEEDS_PATH, Entry
from oblivec.datasets.kuai import Columns, core, find_file, read_features, read_log
from oblivec.errors import BadInput
from oblivec.files.table_sources import open_table

FEATURES = ("onehot_feat1", "onehot_feat2")
TIME_COLUMNS = ("timestamp", "time")
"""Unix milliseconds where there are any, else the readable date."""
PAPER_COUNTS = (25_473, 284_996, 4_619_183)
"""Users, items and interactions of the paper's table, after pre-processing."""


@dataclass(frozen=True)
class KuaiSAR(Entry):
    def load(self, path: Path | None, root: Path) -> Dataset:
        folder = self.needs_path(path)
        log, features = (self._find(folder, name) for name in ("rec_inter.csv", "user_features.csv"))
        names = open_table(log).names
        time = next((name for name in TIME_COLUMNS if name in names), None)
        if time is None:
            raise BadInput(f"{log}: has neither a column 'timestamp' nor 'time'; give the file as it was published")
        interactions = core(read_log([log], Columns("user_id", "item_id", time, "click")))
        attributes, without, unused = read_features(features, FEATURES, interactions.user_keys)
        notes = attribute_notes(without, unused)
        counts = (interactions.n_users, interactions.n_items, len(interactions))
        if counts != PAPER_COUNTS:
            notes += (
                "the paper counts {:,} users, {:,} items and {:,} interactions: this is another version or part of it"
                .format(*PAPER_COUNTS),
            )
        return Dataset(
            self.name, interactions, attributes, notes=notes, licence=self.licence, citation=self.citation,
            source=str(folder),
        )

    def presence(self, root: Path) -> str:
        return NEEDS_PATH

    def _find(self, folder: Path, name: str) -> Path:
        found = find_file(folder, name) if folder.is_dir() else []
        if not found:
            raise BadInput(f"{folder}: has no {name}; {self.by_hand}")
        return found[0]


ENTRY = KuaiSAR(
    name="kuaisar",
    title="KuaiSAR-small",
    licence="KuaiSAR, Kuaishou and Renmin University of China: see the terms beside the download.",
    citation="Z. Sun et al. KuaiSAR: A Unified Search And Recommendation Dataset. CIKM 2023. https://arxiv.org/abs/2306.07705",
    by_hand=(
        "get KuaiSAR-small from https://kuaisar.github.io/ and give the folder that holds rec_inter.csv and "
        "user_features.csv with --path"
    ),
)
