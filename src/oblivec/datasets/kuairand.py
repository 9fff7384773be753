"""KuaiRand-Pure: long views of short videos, and two anonymised features of the users.

Read from the published logs (`log_standard_*_pure.csv`, with times), or from a derived list of long views whose row
order is the order in time. What the features mean is not published: they keep their names.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from oblivec.datasets.dataset import Dataset, attribute_notes
from oblivec.datasets.entry import NEEDS_PATH, Entry
from oblivec.datasets.kuai import Columns, core, find_file, read_features, read_log
from oblivec.errors import BadInput

FEATURES = ("onehot_feat0", "onehot_feat1")
PUBLISHED_LOGS = "log_standard_*_pure.csv"
DERIVED_LOG = "longview_interactions_derived.csv*"


@dataclass(frozen=True)
class KuaiRand(Entry):
    def load(self, path: Path | None, root: Path) -> Dataset:
        folder = self.needs_path(path)
        if not folder.is_dir():
            raise BadInput(f"{folder}: is not a folder; {self.by_hand}")
        features = find_file(folder, "user_features_pure.csv")
        if not features:
            raise BadInput(f"{folder}: has no user_features_pure.csv; {self.by_hand}")
        if logs := find_file(folder, PUBLISHED_LOGS):
            interactions = read_log(logs, Columns("user_id", "video_id", "time_ms", "long_view"))
        elif logs := find_file(folder, DERIVED_LOG):
            interactions = read_log(logs[:1], Columns("user_id", "video_id", None, None))
        else:
            raise BadInput(f"{folder}: has no {PUBLISHED_LOGS}; {self.by_hand}")
        interactions = core(interactions)
        attributes, without, unused = read_features(features[0], FEATURES, interactions.user_keys)
        return Dataset(
            self.name, interactions, attributes, notes=attribute_notes(without, unused), licence=self.licence,
            citation=self.citation, source=str(folder),
        )

    def presence(self, root: Path) -> str:
        return NEEDS_PATH


ENTRY = KuaiRand(
    name="kuairand-pure",
    title="KuaiRand-Pure",
    licence="KuaiRand, Kuaishou and University of Science and Technology of China: CC BY-SA 4.0.",
    citation=(
        "C. Gao et al. KuaiRand: An Unbiased Sequential Recommendation Dataset with Randomly Exposed Videos. "
        "CIKM 2022. https://doi.org/10.1145/3511808.3557624"
    ),
    by_hand="get KuaiRand-Pure from https://kuairand.com/ and give the folder with its csv files with --path",
)
