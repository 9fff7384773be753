"""Calibrations, releases and audits on disk, with their lineage. As sensitive as the labels."""

from oblivec.store.keys import config_hash, labels_hash, matrix_hash
from oblivec.store.lineage import Lineage, audit_lineage, calibration_lineage, release_lineage
from oblivec.store.store import Store

__all__ = [
    "Lineage", "Store", "audit_lineage", "calibration_lineage", "config_hash", "labels_hash", "matrix_hash",
    "release_lineage",
]
