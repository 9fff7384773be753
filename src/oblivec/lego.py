"""The front door: `Lego` calibrates every attribute once, and then gives the release for any requirement.

    lego = Lego(store="calibrations").fit(U, {"gender": gender, "age": age})
    release = lego.protect(["gender", "age"])
    lego.add("occupation", occupation).protect(["gender", "occupation"])

What a release costs depends on what it must protect and not on how many attributes are known.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

import oblivec.calibration
import oblivec.combination  # noqa: F401  (both fill their registries)
from oblivec.calibration.base import REGISTRY as CALIBRATORS
from oblivec.calibration.base import Calibration, Calibrator, calibrator
from oblivec.calibration.configured import find
from oblivec.combination.partners import DEFAULT_METHOD, partner_of
from oblivec.datasets.attributes import Attribute
from oblivec.devices import resolve_device
from oblivec.engines.local import default_jobs, map_tasks, run_single_threaded
from oblivec.errors import BadInput
from oblivec.files.embeddings import embeddings_from
from oblivec.files.ids import listing
from oblivec.files.matching import match_attributes
from oblivec.files.matrices import as_float32, as_given
from oblivec.files.tables import attributes_from
from oblivec.store import Lineage, Store, calibration_lineage, config_hash, matrix_hash, release_lineage
from oblivec.store.making import Order, make

Matrix = TypeVar("Matrix", np.ndarray, Tensor)


class Lego:
    """Removes chosen attributes from a user matrix: calibrates each alone, combines those a requirement names.

    `method` and `settings` say how (`combination` holds settings of the second step); `label_free` asks for an edit
    in which nobody's own label decides how that user moves. `store`, a directory or a `Store`, keeps what was made:
    as sensitive as the labels. `items` (M x d), where the score is a dot product, tells the method which directions
    matter. The number of `jobs` changes no result. What this does not give: a proof. Audit the release.
    """

    def __init__(
        self,
        method: str = DEFAULT_METHOD,
        *,
        store: Store | Path | str | None = None,
        seed: int = 0,
        device: torch.device | str = "auto",
        jobs: int | None = None,
        items: np.ndarray | Tensor | None = None,
        label_free: bool = False,
        combination: Mapping[str, Any] | None = None,
        **settings: Any,
    ):
        self.combiner = partner_of(method, **(combination or {}))
        self.calibrator = _configured(method, label_free, settings)
        self.method, self.seed, self.jobs = method, seed, jobs
        self.device = resolve_device(device)
        self.store = Store(store) if isinstance(store, Path | str) else store
        self.items = None if items is None else as_float32(embeddings_from(items).values, "items")
        self.seconds = {"calibrate": 0.0, "combine": 0.0}
        """What the work took so far; what came from the store took next to nothing."""
        self.notes: list[str] = []
        """What a user should know about the tables that were given."""
        self._made: dict[str, Calibration] = {}

    # --- step 1 ---------------------------------------------------------------------------------------------------

    def fit(
        self, U: np.ndarray | Tensor, attributes: Any, *, attribute: Sequence[str] | None = None,
        types: Mapping[str, str] | None = None, ids: Any = None, id_column: str | None = None,
    ) -> Self:
        """Calibrate every attribute of `U`, several at a time. Those the store has are not calibrated again.

        `attributes` is a mapping of name to labels, or a pandas, polars or Arrow table; with `ids` (one per row of
        `U`) and an id column in the table, rows are matched by id, otherwise row i belongs to row i. `attribute` names
        those wanted (default: all columns that can be used).
        """
        self.take(U, attributes, attribute=attribute, types=types, ids=ids, id_column=id_column)
        return self.calibrate()

    def take(
        self, U: np.ndarray | Tensor, attributes: Any, *, attribute: Sequence[str] | None = None,
        types: Mapping[str, str] | None = None, ids: Any = None, id_column: str | None = None,
    ) -> Self:
        """The first half of `fit`: take in the matrix and the labels, check them, and calibrate nothing yet."""
        matrix = embeddings_from(U, ids)
        wanted = list(attribute) if attribute else None
        matched, self.notes = match_attributes(
            matrix, attributes_from(attributes, id_column=id_column, types=types, only=wanted)
        )
        for found in matched.values():
            _refuse_unlabelled(found)
        values = as_float32(matrix.values, "embeddings")
        if self.items is not None and self.items.shape[1] != values.shape[1]:
            raise BadInput(f"items: have {self.items.shape[1]} dimensions, the user matrix has {values.shape[1]}; "
                           "give the item matrix of the same model")
        self._given, self._values, self._made = U, values, {}
        self._labels = {name: matched[name] for name in sorted(matched)}
        self._user_matrix = matrix_hash(matrix.values)
        self._item_matrix = None if self.items is None else matrix_hash(self.items)
        return self

    def add(self, name: str, labels: Any) -> Self:
        """Calibrate one more attribute of the same users: one label, or None, per row of the matrix."""
        self._needs_fit()
        matched, notes = match_attributes(embeddings_from(self._values), attributes_from({name: labels}, only=[name]))
        _refuse_unlabelled(matched[name])
        self._made.pop(name, None)
        known = self._labels | matched
        self._labels, self.notes = {one: known[one] for one in sorted(known)}, self.notes + notes
        return self.calibrate([name])

    def missing(self, attributes: Iterable[str] | None = None) -> list[str]:
        """Which of these (default: all known) would have to be calibrated."""
        return [
            name for name in self.requirement(self.attributes if attributes is None else attributes)
            if name not in self._made and not (self.store and self.store.has(self.lineage(name).key))
        ]

    def calibrate(self, attributes: Iterable[str] | None = None) -> Self:
        """Calibrate what is missing of these (default: all known), in parallel.

        Each goes into the store as soon as it is done: a run that is killed has lost none that was finished.
        """
        start = time.perf_counter()
        names = self.missing(attributes)
        if names and self.store is not None and not os.access(self.store.path, os.W_OK):
            raise BadInput(f"{self.store.path}: cannot be written, and lacks {listing(names)}; use another store")
        tasks = [
            Order(self.calibrator, self._values, self._labels[name], self.items, self.seed, str(self.device),
                  None if self.store is None else self.store.path, self.lineage(name))
            for name in names
        ]
        # On an accelerator one after the other: each has all of it.
        jobs = self.jobs if self.device.type == "cpu" else 1
        made = map_tasks(make, tasks, jobs, "Calibrating")
        self._made |= {name: one for name, one in zip(names, made, strict=True) if one is not None}
        self.seconds["calibrate"] += time.perf_counter() - start
        return self

    # --- step 2 ---------------------------------------------------------------------------------------------------

    def protect(self, attributes: Iterable[str]) -> Any:
        """The release for this requirement, in whatever order it is named; numpy or torch as `U` was, in its type."""
        return as_given(self.release(attributes), self._given, self._values)

    def release(self, attributes: Iterable[str]) -> Tensor:
        """The release as the method makes it, float32 on the CPU; from the store where it has it."""
        start = time.perf_counter()
        names = self.requirement(attributes)
        lineage = self.release_lineage(names)
        if self.store is not None and names and self.store.has(lineage.key):
            release = self.store.get_release(lineage.key)
        else:
            release = self._combine(names)
            if self.store is not None and names and os.access(self.store.path, os.W_OK):
                self.store.put_release(lineage, release, time.perf_counter() - start)
        self.seconds["combine"] += time.perf_counter() - start
        return release

    def transform(self, U_new: Matrix, protect: Iterable[str]) -> Matrix:
        """The rows to release for users of the same model who were not in the matrix; nobody needs their labels.

        `lego` edits them together with the matrix, which takes as long as a label-free release. Who knows labels of
        some of them reads the less of the others the more come at once: give all that you have.
        """
        names = self.requirement(protect)
        values = as_float32(embeddings_from(U_new).values, "embeddings")
        if values.shape[1] != self._values.shape[1]:
            raise BadInput(f"embeddings: have {values.shape[1]} dimensions, those fitted have {self._values.shape[1]}; "
                           "give users of the same model")
        rows, labels = torch.from_numpy(values), [self._labels[name] for name in names]
        served = self._run(self.calibrator.transform, torch.from_numpy(self._values), labels, rows) if names else rows
        return as_given(served, U_new, values)

    def _combine(self, names: Sequence[str]) -> Tensor:
        calibrations = [self.calibration(name) for name in names]
        labels = [self._labels[name] for name in names]
        return self._run(self.combiner.combine, torch.from_numpy(self._values), calibrations, labels)

    def _run(self, step: Callable[..., Tensor], *given: Any) -> Tensor:
        """A step of the method. Its sums are on one thread, so that the number of cores changes no bit."""
        items = None if self.items is None else torch.from_numpy(self.items)
        return run_single_threaded(
            lambda step: step(*given, items=items, seed=self.seed, device=self.device), step,
            cores=self.jobs or default_jobs(),
        )

    # --- what is known --------------------------------------------------------------------------------------------

    @property
    def attributes(self) -> list[str]:
        """Names of the attributes that can be protected."""
        self._needs_fit()
        return list(self._labels)

    @property
    def facts(self) -> dict[str, dict[str, Any]]:
        """What the method says about each calibration. `notes` tells where protection cannot be assured."""
        return {name: self.facts_of(name) for name in self.attributes if name not in self.missing([name])}

    @property
    def config_hash(self) -> str:
        """Fingerprint of every setting of both steps."""
        steps = {"calibration": self.calibrator, "combination": self.combiner}
        settings = {step: one.config.model_dump(mode="json") for step, one in steps.items()}
        return config_hash({"method": self.method, **settings})

    def requirement(self, attributes: Iterable[str]) -> list[str]:
        """These attributes in the one order they are always combined in: by name, each once."""
        known, wanted = self.attributes, {attributes} if isinstance(attributes, str) else set(attributes)
        for name in sorted(wanted - set(known)):
            raise BadInput(f"attribute '{name}': not among those given; there are {listing(known) or 'none'}")
        return [name for name in known if name in wanted]

    def calibration(self, name: str) -> Calibration:
        """The calibration of one attribute, every bit checked when it comes from the store."""
        if name not in self._made and self.store is not None and self.store.has(key := self.lineage(name).key):
            return self.store.get(key)
        if name not in self._made:
            raise BadInput(f"attribute '{name}': not calibrated yet; call calibrate first")
        return self._made[name]

    @property
    def values(self) -> np.ndarray:
        """The user matrix as the methods see it, float32."""
        self._needs_fit()
        return self._values

    def lineage(self, name: str) -> Lineage:
        """What the calibration of this attribute is made from."""
        return calibration_lineage(
            self.calibrator, self._labels[name], user_matrix=self._user_matrix, item_matrix=self._item_matrix,
            seed=self.seed,
        )

    def release_lineage(self, attributes: Iterable[str]) -> Lineage:
        """What the release for this requirement is made from."""
        return release_lineage(
            self.combiner, [self.lineage(name) for name in self.requirement(attributes)],
            user_matrix=self._user_matrix, item_matrix=self._item_matrix, seed=self.seed,
        )

    def facts_of(self, name: str) -> dict[str, Any]:
        """What the method says about one calibration; reads no tensor."""
        if name in self._made or self.store is None:
            return self._made[name].facts
        return self.store.manifest("calibration", self.lineage(name).key).facts

    def _needs_fit(self) -> None:
        if not hasattr(self, "_labels"):
            raise BadInput("Lego: knows no user matrix yet; call fit first")


def _configured(method: str, label_free: bool, settings: dict[str, Any]) -> Calibrator:
    if label_free and "label_free" not in find(CALIBRATORS, "method", method).Config.model_fields:
        raise BadInput(f"method {method!r}: has no label-free form; use {DEFAULT_METHOD}")
    return calibrator(method, **settings, **({"label_free": True} if label_free else {}))


def _refuse_unlabelled(attribute: Attribute) -> None:
    if not attribute.labelled.any():
        raise BadInput(f"attribute '{attribute.name}': every label is missing, so it cannot be removed; "
                       "give some users' labels, or leave it out")
