"""Where results go: every target is checked before long work, so that none of it is lost to a typing error."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from oblivec.errors import BadInput
from oblivec.files.atomic import check_writable
from oblivec.files.embeddings import EmbeddingFile, check_target, write_embeddings
from oblivec.files.opening import suffix_of
from oblivec.policies.source import Given, Source
from oblivec.recommenders.base import Recommender
from oblivec.recommenders.storage import REST_FILE, save_item_side


def check_targets(targets: Mapping[str, Path | None], source: Source, *, in_place: bool = False) -> None:
    """Refuse targets that cannot be written, that are the same file twice, or that would replace an input.

    `targets` are paths by the option or key that names them. `in_place` lets the release replace the matrix it is made
    from, because whoever names that file twice means it.
    """
    inputs = {path.resolve(): key for key, path in source.paths.items() if not (in_place and key == "embeddings")}
    taken: dict[Path, str] = {}
    for option, path in targets.items():
        if path is None:
            continue
        place = path.resolve()
        if place in inputs:
            raise BadInput(f"{option} {path}: would replace the {inputs[place]} it is made from; choose another name")
        if place in taken:
            raise BadInput(f"{option} {path}: is the target of {taken[place]} too; choose another name")
        taken[place] = option
        check_writable(path)


def check_items_target(target: Path, given: Given) -> None:
    """The refitted item side goes into the format it came in."""
    if given.item_file is not None:
        check_target(target, given.item_file)
    elif suffix_of(target) != ".safetensors":
        raise BadInput(f"{target}: must end in .safetensors, as {REST_FILE} does: this model's item side is no matrix")


def write_item_side(target: Path, model: Recommender, item_file: EmbeddingFile | None) -> None:
    """The item matrix as its file was laid out; for a model that is no dot product, all its tensors but the users'."""
    items = model.item_matrix()
    if items is not None and item_file is not None:
        write_embeddings(target, item_file, items)
    else:
        save_item_side(model, target)
