"""A trained model with its users in the order of a matrix that was read from elsewhere."""

from __future__ import annotations

from pathlib import Path

from oblivec.errors import BadInput
from oblivec.files.embeddings import EmbeddingFile, read_embeddings
from oblivec.files.matching import match_embeddings
from oblivec.recommenders.base import Recommender
from oblivec.recommenders.storage import USERS_FILE, load


def load_aligned(directory: Path, matrix: EmbeddingFile) -> Recommender:
    """The model saved in `directory`, row i of its user matrix belonging to row i of `matrix`."""
    trained = load(directory)
    users = read_embeddings(directory / USERS_FILE)
    rows, model_rows, _ = match_embeddings(matrix, users)
    if len(rows) < len(matrix) or len(users) != len(matrix):
        raise BadInput(f"{directory}: has other users ({len(users)}) than {matrix.source} ({len(matrix)})")
    return trained.with_user_matrix(users.values[model_rows])
