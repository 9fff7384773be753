"""`oblivec train`: a recommender from a data set, and the directory everything else starts from."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from oblivec.cli.app import app
from oblivec.cli.options import Device, Quiet, Seed, Verbose, split_types
from oblivec.console import detail, say, show_table
from oblivec.datasets import registry
from oblivec.datasets.dataset import Dataset
from oblivec.datasets.own import own
from oblivec.datasets.splits import DEFAULT_TIE_RULE, TIE_RULES
from oblivec.devices import resolve_device
from oblivec.errors import BadInput
from oblivec.files.directories import check_directory_target
from oblivec.metrics import rank_test_items
from oblivec.recommenders import RECOMMENDERS, recommender
from oblivec.recommenders.export import write_trained
from oblivec.recommenders.storage import MODEL_FILE


@app.command()
def train(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the trained model goes.")],
    model: Annotated[str, typer.Option("--model", help=f"One of {', '.join(RECOMMENDERS)}.")] = "lightgcn",
    dataset: Annotated[
        str | None, typer.Option("--dataset", metavar="NAME", help=f"One of {', '.join(registry.names())}.")
    ] = None,
    path: Annotated[
        Path | None, typer.Option("--path", metavar="LOCAL", help="A local copy of the data set to read.")
    ] = None,
    root: Annotated[
        Path | None,
        typer.Option("--root", metavar="CACHE", help="Where fetched data is kept "
                                                     "[default: $OBLIVEC_DATA, else ~/.cache/oblivec]."),
    ] = None,
    interactions: Annotated[
        Path | None,
        typer.Option("--interactions", metavar="TABLE",
                     help="Your own data instead of --dataset: user_id, item_id, optional timestamp and split."),
    ] = None,
    attributes: Annotated[
        Path | None,
        typer.Option("--attributes", metavar="TABLE", help="Your own users' attributes: user_id and one column each."),
    ] = None,
    id_column: Annotated[
        str | None, typer.Option("--id-column", metavar="NAME", help="The user column of your own tables.")
    ] = None,
    types: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="A=TYPE", help="Overrule the type of an attribute of your own: continuous or "
                                                      "categorical. Repeatable."),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option("--epochs", min=1, help="Passes over the data [default: the preset's].")
    ] = None,
    preset: Annotated[
        str, typer.Option("--preset", help="default, or paper: the settings the paper prints.")
    ] = "default",
    tie_rule: Annotated[
        str,
        typer.Option("--tie-rule", help="Which of a user's interactions with equal timestamps comes last and is held "
                                        f"out: {', '.join(TIE_RULES)}."),
    ] = DEFAULT_TIE_RULE,
    seed: Seed = 0,
    device: Device = "auto",
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Train a recommender and measure it by leave-one-out over the full catalogue.

    DIR receives the user matrix (users.safetensors), the item matrix where the score is a dot product
    (items.safetensors), the rest of the model, attributes.csv, interactions.csv and metrics.json. It appears whole or
    not at all; a model that is already there is replaced.
    """
    check_directory_target(out, MODEL_FILE)
    place = resolve_device(device)
    fresh = recommender(model, preset, **({} if epochs is None else {"epochs": epochs}))
    data = _dataset(dataset, path, root, interactions, attributes, id_column, split_types(types))
    split = data.split(tie_rule)
    for note in (*data.notes, *data.split_notes(split)):
        say(f"- {note}")
    detail(f"{model} on {place}: {fresh.config!r}")

    start = time.perf_counter()
    fresh.fit(split, seed=seed, device=place)
    seconds = round(time.perf_counter() - start, 3)
    quality = rank_test_items(fresh.scores, split, device=place).summary()
    metrics: dict[str, Any] = quality | {
        "dataset": data.name, "model": model, "tie_rule": split.tie_rule, "seed": seed, "seconds": seconds,
    }
    write_trained(out, fresh, data, split, metrics)
    if not quiet:
        row = (model, f"{quality['hr@10']:.2f}", f"{quality['ndcg@10']:.2f}", split.tie_rule, f"{seconds:.1f}")
        show_table(f"{data.name}: {out}", ("model", "HR@10 (%)", "NDCG@10 (%)", "tie rule", "seconds"), [row])


def _dataset(
    name: str | None, path: Path | None, root: Path | None, interactions: Path | None, attributes: Path | None,
    id_column: str | None, types: dict[str, str],
) -> Dataset:
    if (name is None) == (interactions is None):
        raise BadInput("give either --dataset NAME or --interactions TABLE")
    if name is not None:
        if attributes is not None or id_column is not None or types:
            raise BadInput("--attributes, --id-column and --type go with --interactions; --dataset brings its own")
        return registry.load(name, path=path, root=root)
    if path is not None or root is not None:
        raise BadInput("--path and --root go with --dataset; with --interactions they mean nothing")
    return own(interactions, attributes, id_column=id_column, types=types)  # type: ignore[arg-type]
