"""FedKT's speed: the teachers and students of 50 parties beside the same forests in a plain joblib loop."""

import time
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
from joblib import Parallel, cpu_count, delayed, parallel_config
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier

from benchmarks import report
from benchmarks.federation import Runs
from fedct_flwr import datasets
from fedct_flwr.config import LearnerSettings, RunConfig
from fedct_flwr.labelers.transfer import Transfer
from fedct_flwr.learners.build import untrained
from fedct_flwr.learners.preprocessing import standard
from fedct_flwr.types import Examples

PARTITIONS, TEACHERS = 2, 5
PARTIES_AT_A_TIME: Final = 5
"""So many with the loop, then with FedKT, and so on: what else the machine does slows both."""
FOREST: Final[dict[str, Any]] = {"n_estimators": 100, "max_depth": 6}
# 75 % private, 12.5 % public: 48,842 records.
DATA: Final[dict[str, Any]] = {"data": "adult", "private-size": 36_631, "public-size": 6_105}


class Party(NamedTuple):
    """One silo: its records as FedKT gets them, and all forests' features and labels as the plain loop does."""

    transfer: Transfer
    private: Examples
    forests: Sequence[tuple[NDArray[Any], NDArray[Any]]]


def run(seeds: int | None, fast: bool) -> None:
    """FedKT on Adult with 50 parties, 100 trees in each forest, beside a plain joblib loop of the same forests.

    About four minutes on two cores; 10 parties if ``fast``.
    """
    start = time.perf_counter()
    workers = cpu_count()
    number = 10 if fast else 50
    public, parties = _parties(number, workers)
    runs = Runs()
    for _ in range(seeds or 1):
        for first in range(0, number, PARTIES_AT_A_TIME):
            some = parties[first : first + PARTIES_AT_A_TIME]
            measured = {}
            # Whoever comes first has the same share of a trend.
            order = (_plain, _fedkt) if first % 2 else (_fedkt, _plain)
            for method in order:
                # Processes are started, and have imported all they need, before anything is timed.
                method(some[:1], public, workers)
                begin = time.perf_counter()
                method(some, public, workers)
                measured[method.__name__.strip("_")] = time.perf_counter() - begin
            runs.add(**measured, ratio=measured["fedkt"] / measured["plain"])
    settings = {**DATA, "parties": number, "partitions": PARTITIONS, "teachers": TEACHERS, "forest": FOREST}
    report.write("fedkt-speed", _text(runs, number, workers), {"": runs}, settings, time.perf_counter() - start)


def _parties(number: int, workers: int) -> tuple[NDArray[Any], list[Party]]:
    config = RunConfig.from_flower({"study": "benchmark", "num-silos": 50, **DATA})
    dataset = datasets.load(config)
    public = dataset.public.X
    settings = LearnerSettings(name="random-forest", params=FOREST)
    parties = []
    for position, silo in enumerate(dataset.silos[:number]):
        private = silo.private
        transformer = standard(dataset.schema, np.concatenate([public, private.X]))
        records, lectures = transformer.transform(private.X), transformer.transform(public)
        transfer = Transfer(
            partial(untrained, settings, num_classes=2, examples=records[:2], transformer=None),
            2,
            partitions=PARTITIONS,
            teachers=TEACHERS,
            num_records=private.size,
            seed=position,
            transformer=transformer,
            workers=workers,
        )
        rng = np.random.default_rng(position)
        parts = [part for _ in range(PARTITIONS) for part in np.array_split(rng.permutation(private.size), TEACHERS)]
        # As many trees learn labels that are as hard: those of a forest of all records.
        labels = RandomForestClassifier(**FOREST, random_state=0).fit(records, private.y).predict(lectures)
        forests = [(records[part], private.y[part]) for part in parts] + [(lectures, labels)] * PARTITIONS
        parties.append(Party(transfer, private, forests))
    return public, parties


def _plain(parties: Sequence[Party], public: NDArray[Any], workers: int) -> None:
    """Fit all forests, and nothing else: features are preprocessed, nothing is predicted."""
    forests = [forest for party in parties for forest in party.forests]
    # In the same processes as FedKT's: to be handed over from one to the other would start them anew.
    with parallel_config("loky", inner_max_num_threads=1):
        Parallel(n_jobs=workers, max_nbytes=None)(
            delayed(_fitted)(number, *forest) for number, forest in enumerate(forests)
        )


def _fitted(number: int, X: NDArray[Any], y: NDArray[Any]) -> RandomForestClassifier:
    return RandomForestClassifier(**FOREST, random_state=number).fit(X, y)


def _fedkt(parties: Sequence[Party], public: NDArray[Any], workers: int) -> None:
    """All that silos do: preprocess, train teachers, have them vote, train students, have them vote."""
    for party in parties:
        party.transfer.votes(party.private, public, np.arange(len(public)), None)


def _text(runs: Runs, number: int, workers: int) -> str:
    plain, fedkt = (sum(runs.values[name]) for name in ("plain", "fedkt"))
    rows = [["plain joblib loop", f"{plain:.1f}", ""], ["FedKT", f"{fedkt:.1f}", f"{fedkt / plain:.2f}"]]
    teachers, students = number * PARTITIONS * TEACHERS, number * PARTITIONS
    each = ", ".join(f"{ratio:.2f}" for ratio in sorted(runs.values["ratio"]))
    return (
        f"# FedKT on Adult: {number} parties, {teachers} teachers and {students} students on {workers} cores\n\n"
        f"Random forests of {FOREST['n_estimators']} trees of depth {FOREST['max_depth']}. The loop fits as many "
        "forests to as many records and nothing else; FedKT also preprocesses, has teachers and students predict, and "
        "counts.\n\n"
        + report.table(["", "seconds", "times the loop"], rows)
        + f"\nIn turns, {PARTIES_AT_A_TIME} parties at a time; the ratio of each turn: {each}.\n"
    )
