"""How long does an audit take, and how much faster are the tensor programs than a scikit-learn loop?

Targets: a matrix of MovieLens-1M's size (6,040 x 32; attributes of 2, 3 and 21 classes) in at most 5 minutes on 2
cores; the tensor members at least 5 times faster than the same members in a scikit-learn loop over the same trials,
agreeing within noise; on a GPU 1 M users x 64 in under 2 minutes with 200,000 users per attribute.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from oblivec.attacks.base import REGISTRY, Problem, Trial
from oblivec.attacks.neighbours import SCALES
from oblivec.attacks.sampling import draw
from oblivec.attacks.threats import Evidence
from oblivec.audit.run import run_audit
from oblivec.bench.audit_level import AGE, GENDER, OCCUPATION
from oblivec.bench.audit_simulations import noise_labels
from oblivec.datasets.attributes import Attribute
from oblivec.engines.local import run_single_threaded
from oblivec.randomness import numpy_rng


def run(quick: bool = False) -> dict[str, Any]:
    """`quick`: a tenth of the users."""
    users = 604 if quick else 6040
    U, attributes = leaky_matrix(users, 32)
    start = time.perf_counter()
    run_audit(Evidence(U, attributes), device="cpu")
    found: dict[str, Any] = {"movielens_1m_size": {"users": users, "seconds": time.perf_counter() - start}}
    found["against_scikit_learn"] = compare(U, attributes)
    if torch.cuda.is_available():
        found["million_on_gpu"] = million(100_000 if quick else 1_000_000)
    return found


def leaky_matrix(users: int, dimensions: int) -> tuple[np.ndarray, dict[str, Attribute]]:
    """Noise with a linear leak of every attribute, so that attackers have something to learn."""
    labels = {
        name: noise_labels(priors, users, name, 0)
        for name, priors in {"gender": GENDER, "age": AGE, "occupation": OCCUPATION}.items()
    }
    rng = numpy_rng(0, "leaky matrix", users)
    U = rng.normal(size=(users, dimensions)).astype(np.float32)
    for attribute in labels.values():
        U += 0.15 * rng.normal(size=(len(attribute.classes), dimensions)).astype(np.float32)[attribute.values]
    return U, labels


def million(users: int) -> dict[str, Any]:
    """A GPU audit, warmed up once on a small matrix: libraries load and kernels compile outside the clock."""
    small, few = leaky_matrix(2000, 64)
    run_audit(Evidence(small, few), device="cuda")
    U, attributes = leaky_matrix(users, 64)
    torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    result = run_audit(Evidence(U, attributes), device="cuda")
    torch.cuda.synchronize()
    return {
        "users": users, "dimensions": 64, "seconds": time.perf_counter() - start,
        "gpu": torch.cuda.get_device_name(), "peak_gpu_bytes": torch.cuda.max_memory_allocated(),
        "users_per_attribute": {name: found.n for name, found in result.main.attributes.items()},
        "smallest_leak": {name: found.smallest_leak for name, found in result.main.attributes.items()},
    }


def compare(U: np.ndarray, attributes: dict[str, Attribute]) -> dict[str, Any]:
    """Both sides on one thread, five out-of-fold trials per attribute, balanced accuracy side by side.

    Seconds are of the processor, so that other work on the machine favours nobody, and come after a first round on a
    few users, so that loading libraries is not counted.
    """
    problems = {}
    for attribute in attributes.values():
        sample = draw(attribute.values, np.arange(len(U)), "panel", 0)
        problems[attribute.name] = Problem(U, attribute.values, len(attribute.classes), sample.trials[:5], 0)
    first = next(iter(problems.values()))
    few = replace(first, trials=[Trial(trial.train[:300], trial.test[:50]) for trial in first.trials[:1]])
    found: dict[str, Any] = {}
    for name in _SCIKIT_LEARN:
        row: dict[str, Any] = {"seconds": 0.0, "scikit_learn_seconds": 0.0, "bacc": {}, "scikit_learn_bacc": {}}
        sides = (("", _ours(name)), ("scikit_learn_", _theirs(name)))
        for _, attack in sides:
            run_single_threaded(attack, few)
        for attribute, problem in problems.items():
            for prefix, attack in sides:
                start = time.process_time()
                predicted = run_single_threaded(attack, problem)
                row[f"{prefix}seconds"] += time.process_time() - start
                row[f"{prefix}bacc"][attribute] = _balanced_accuracy(problem, predicted)
        row["times_faster"] = row["scikit_learn_seconds"] / row["seconds"]
        found[name] = row
    ours = sum(row["seconds"] for row in found.values())
    theirs = sum(row["scikit_learn_seconds"] for row in found.values())
    return {"members": found, "times_faster": theirs / ours}


Attack = Callable[[Problem], list[np.ndarray]]


def _ours(name: str) -> Attack:
    return lambda problem: [s.argmax(1) for s in REGISTRY[name]().attack(problem, torch.device("cpu"))]


def _theirs(name: str) -> Attack:
    """scikit-learn's nearest equal in a loop over the trials, with the same scaling and every class weighing alike."""

    def attack(problem: Problem) -> list[np.ndarray]:
        from sklearn.preprocessing import StandardScaler

        found = []
        for trial in problem.trials:
            scaler = StandardScaler().fit(problem.vectors[trial.train])
            train, test = (np.asarray(scaler.transform(problem.vectors[rows])) for rows in (trial.train, trial.test))
            found.append(_SCIKIT_LEARN[name](train, problem.labels[trial.train], test))
        return found

    return attack


def _logistic(train: np.ndarray, labels: np.ndarray, test: np.ndarray) -> np.ndarray:
    from sklearn.linear_model import LogisticRegression

    return np.asarray(LogisticRegression(class_weight="balanced", max_iter=1000).fit(train, labels).predict(test))


def _perceptron(train: np.ndarray, labels: np.ndarray, test: np.ndarray) -> np.ndarray:
    from sklearn.neural_network import MLPClassifier
    from sklearn.utils.class_weight import compute_sample_weight

    model = MLPClassifier((100,), early_stopping=True, random_state=0)
    return np.asarray(model.fit(train, labels, sample_weight=compute_sample_weight("balanced", labels)).predict(test))


def _rbf_machine(train: np.ndarray, labels: np.ndarray, test: np.ndarray) -> np.ndarray:
    from sklearn.svm import SVC

    return np.asarray(SVC(class_weight="balanced").fit(train, labels).predict(test))


def _nearest(train: np.ndarray, labels: np.ndarray, test: np.ndarray) -> np.ndarray:
    """The largest of our scales; the votes of a class divided by its share."""
    from sklearn.neighbors import KNeighborsClassifier

    model = KNeighborsClassifier(SCALES[-1]).fit(train, labels)
    votes = np.asarray(model.predict_proba(test)) / np.unique(labels, return_counts=True)[1]
    return np.asarray(model.classes_)[votes.argmax(1)]


_SCIKIT_LEARN: dict[str, Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]] = {
    "linear": _logistic, "mlp": _perceptron, "kernel": _rbf_machine, "neighbours": _nearest,
}


def _balanced_accuracy(problem: Problem, predicted: list[np.ndarray]) -> float:
    answer = np.empty(len(problem.labels), dtype=np.int64)
    for trial, part in zip(problem.trials, predicted, strict=True):
        answer[trial.test] = part
    return float(np.mean([(answer[problem.labels == c] == c).mean() for c in range(problem.n_classes)]))
