"""Membership inference: the same attacks on all that each method lets travel, and the paper's Table 1, column VUL.

Methods are audited as ``fedct audit`` does it: refits with a random half of the candidates held out, and candidates
planted in the public set. VUL is the area under the curve of the strongest attack; the paper's column is of one attack
(arXiv:2310.05696, Table 1, FashionMNIST). Where a model is given away, its holder attacks.

An attack that is the strongest on the records it was chosen on looks better than it is. So each seed's attack is the
one that works best on the other seeds, where there are some.
"""

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from statistics import fmean
from typing import Any, Final, NamedTuple

from benchmarks.harness import Column, Grid, Row, Settings, Table
from benchmarks.language import SENTIMENT, minilm
from benchmarks.methods import PAPERS_NETWORK, one_thread_per_silo
from benchmarks.report import Runs
from fedct_flwr import datasets
from fedct_flwr.algorithms import ALGORITHMS
from fedct_flwr.audit.adversaries import COORDINATOR, MODEL, Seen, seen_in_model
from fedct_flwr.audit.audit import About, Audit, Candidates, How, Members, attack, play, with_members
from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets.federated import FederatedDataset, PublicSet, take
from fedct_flwr.evaluation.references import centralized, local_only
from fedct_flwr.scoring.intervals import Z
from fedct_flwr.types import generator

_LONG: Final = 1e6
"""Minutes: what is measured must not depend on what else the machine does."""


class Part(NamedTuple):
    """Data, learner, rounds and candidates; ``paper``: VUL of its Table 1 by method, where it has one.

    ``network``: silos can average weights. ``without``: methods that its learner or data cannot have.
    """

    title: str
    given: Mapping[str, Any]
    candidates: int = 200
    refits: int = 6
    seeds: int = 3
    network: bool = False
    without: frozenset[str] = frozenset()
    paper: Mapping[str, float] = {}
    learner_params: Callable[[], Mapping[str, Any]] = dict


_JOINT: Final = "FedCT, joint (eps 1)"
_DP_PATE: Final = "DP-PATE, in secure sums (eps 1)"
_LINEAR: Final = "DP-FedCT (dp-linear, eps 1)"
_LEVEL_2: Final = "FedKT, level 2 (eps 1)"

METHODS: Final[dict[str, dict[str, Any]]] = {
    "FedCT": {"algorithm": "fedct", "pseudo-weight": 1.0},
    "FedCT (DS)": {"algorithm": "fedct-dawid-skene"},
    "FedCT, in secure sums": {"algorithm": "fedct", "pseudo-weight": 1.0, "secure": True},
    _JOINT: {"algorithm": "fedct-joint", "pseudo-weight": 1.0, "epsilon": 1.0},
    "PATE": {"algorithm": "pate"},
    "FedKT": {"algorithm": "fedkt", "teachers": 3},
    "DD": {"algorithm": "dd"},
    "PredCons": {"algorithm": "prediction-consensus"},
    "FedMD": {"algorithm": "fedmd"},
    "FedAvg": {"algorithm": "fedavg"},
    "DP-FedAvg (eps 8)": {"algorithm": "dp-fedavg", "epsilon": 8.0},
    _DP_PATE: {"algorithm": "dp-pate", "secure": True, "epsilon": 1.0},
    _LEVEL_2: {"algorithm": "fedkt", "privacy-level": "L2", "partitions": 1, "teachers": 5, "epsilon": 1.0},
    _LINEAR: {"algorithm": "fedct", "protection": "dp-linear", "epsilon": 1.0},
}
GIVEN_AWAY: Final = {"local model given away": local_only, "pooled model given away": centralized}
_FOR_NETWORKS: Final = frozenset({"FedAvg", "DP-FedAvg (eps 8)", "FedMD"})

_HOSPITALS: Final = {"data": "heart-disease", "num-server-rounds": 3}
_TEXTS: Final = {"data": "sentiment", "num-server-rounds": 3}
_SOME_TEXTS: Final = 1000
"""Public texts: with more, a language model takes most of the time to read them."""
_NOT_FOR_TEXT: Final = frozenset({_JOINT, _LINEAR, "FedKT", _LEVEL_2})
"""Labelers, students and teachers learn from numbers alone."""

PARTS: Final = {
    "hospitals-linear": Part("Four hospitals, logistic regression", {**_HOSPITALS, "learner": "logistic-regression"}),
    "hospitals-trees": Part("Four hospitals, decision trees", {**_HOSPITALS, "learner": "decision-tree"}),
    "hospitals-networks": Part(
        "Four hospitals, overfitting networks",
        {**_HOSPITALS, "learner": "mlp", "device": "cpu", "local-steps": 50},
        refits=4,
        seeds=2,
        network=True,
        learner_params=lambda: {"width": 128},
    ),
    "text-linear": Part(
        "Tweets and reviews, 5 silos x 200 texts, linear models on TF-IDF",
        {**_TEXTS, "learner": "tfidf-linear"},
        candidates=400,
        refits=4,
        without=_NOT_FOR_TEXT,
    ),
    "text-embeddings": Part(
        "Tweets and reviews, 5 silos x 200 texts, linear models on embeddings of MiniLM",
        {**_TEXTS, "learner": "sentence-embedding"},
        candidates=400,
        refits=4,
        seeds=2,
        without=_NOT_FOR_TEXT,
        learner_params=lambda: {"folder": str(minilm())},
    ),
    "fashion-mnist": Part(
        "FashionMNIST, 5 silos x 200 images, overfitting networks",
        {**PAPERS_NETWORK, "num-silos": 5, "private-size": 1000, "public-size": 1000, "num-server-rounds": 3},
        candidates=300,
        refits=3,
        seeds=2,
        network=True,
        paper={"FedCT": 0.51, "FedAvg": 0.72, "DD": 0.60, "DP-FedAvg (eps 8)": 0.71, "PATE": 0.59},
    ),
}


def measured(settings: Settings) -> dict[str, float]:
    """All numbers of one seed's audit that the table is made of."""
    one_thread_per_silo()
    part, method, seed = PARTS[settings["part"]], settings["method"], settings["seed"]
    how = How(settings["refits"] or part.refits, settings["candidates"] or part.candidates, minutes=_LONG, seed=seed)
    # Data do not depend on the method, and loaders of variants know plain FedCT alone.
    plain = config_of(part, METHODS["FedCT"], seed)
    if method in GIVEN_AWAY:
        found = _given_away(plain, _dataset(part, plain), GIVEN_AWAY[method], how)
    else:
        found = attack(config_of(part, METHODS[method], seed), _dataset(part, plain), how)
    values: dict[str, float] = {}
    for seat in found.seats:
        values[f"{seat.seat}: right"] = 100 * seat.right.value
        for name, area in seat.attacks.items():
            values[f"{seat.seat}: {name}: area"] = area.value
            values[f"{seat.seat}: {name}: error"] = (area.high - area.low) / (2 * Z)
    if found.about.epsilon is not None and found.lower_epsilon is not None:
        values |= {"epsilon": found.about.epsilon, "lower_epsilon": found.lower_epsilon}
    return values


def config_of(part: Part, method: Mapping[str, Any], seed: int) -> RunConfig:
    """The settings of the run that is audited."""
    algorithm = ALGORITHMS[method["algorithm"]]
    more: dict[str, Any] = {"warm-up-rounds": 1} if part.network and "warm-up-rounds" in algorithm.uses() else {}
    params = json.dumps(part.learner_params())
    settings = {"study": "membership", "learner-params": params, **part.given, **more, **method, "seed": seed}
    if algorithm.asks_once:
        del settings["num-server-rounds"]
    elif algorithm.fixed_rounds:
        settings["num-server-rounds"] = algorithm.fixed_rounds
    return RunConfig.from_flower(settings)


def _dataset(part: Part, config: RunConfig) -> FederatedDataset:
    found = datasets.load(config)
    if part.given["data"] not in SENTIMENT:
        return found
    some = generator(config.seed, "texts").permutation(found.test.size)[:_SOME_TEXTS]
    public = PublicSet(found.public.X[:_SOME_TEXTS])
    return replace(found, public=public, truth=None, test=take(found.test, some))


def _given_away(config: RunConfig, dataset: FederatedDataset, train: Any, how: How) -> Audit:
    """Models without a federation: of each silo alone, or of all records in one place."""

    def see(candidates: Candidates, members: Members, number: int) -> Seen:
        held = with_members(dataset, candidates, members)
        one, found = train(config, held, 0) if train is centralized else None, {}
        for place, silo in enumerate(dataset.silos):
            records = take(silo.private, candidates[silo.name])
            found[silo.name] = seen_in_model(one or train(config, held, place), records, len(dataset.schema.classes))
        return {COORDINATOR: found}

    return play(About("given away", "none", None, config.delta), how, dataset.silos, see)


def _strongest(seat: str) -> Callable[[Runs], str]:
    """The strongest attack of a seat, with its 95% interval; nothing for a seat that sees nothing."""

    def shown(runs: Runs) -> str:
        marks = {
            key.split(": ")[1]: own for key, own in runs.values.items() if key.startswith(seat) and key[-4:] == "area"
        }
        if not marks:
            return "–"
        # A run that ended after one round shows no changes over rounds: an attack is for all seeds.
        seeds = max(map(len, marks.values()))
        marks = {name: own for name, own in marks.items() if len(own) == seeds}

        def elsewhere(name: str, seed: int) -> float:
            return fmean(mark for number, mark in enumerate(marks[name]) if number != seed or seeds == 1)

        chosen = [max(marks, key=lambda name: elsewhere(name, seed)) for seed in range(seeds)]
        value = fmean(marks[name][seed] for seed, name in enumerate(chosen))
        errors = [runs.values[f"{seat}: {name}: error"][seed] for seed, name in enumerate(chosen)]
        half = Z * math.hypot(*errors) / seeds
        (attack, _), *_ = Counter(chosen).most_common(1)
        return f"{value:.3f} ({max(0.0, value - half):.3f} to {min(1.0, value + half):.3f}), {attack}"

    return shown


def _rows(name: str, part: Part) -> list[Row]:
    fitting = [
        method for method in METHODS if method not in part.without and (part.network or method not in _FOR_NETWORKS)
    ]
    return [
        Row(
            f"{part.title}: {method}",
            {"part": name, "method": method},
            paper={_VUL: f"{part.paper[method]:.2f}"} if method in part.paper else {},
            seeds=part.seeds,
        )
        for method in (*fitting, *GIVEN_AWAY)
    ]


_VUL: Final = "VUL, coordinator (95%)"
_QUICK: Final = ("hospitals-linear", "hospitals-trees", "text-linear")
_TRIED: Final = ("FedCT", _JOINT, "local model given away")
TABLES: Final = {
    "membership": Table(
        "Membership inference",
        "VUL: the area under the curve of the strongest attack, with its 95% interval; .5 is chance. Right: of 100 "
        "guesses. Epsilon proven: a lower bound by the attack, next to what the method promises.",
        [row for name, part in PARTS.items() for row in _rows(name, part)],
        {"": measured},
        [
            Grid(
                "method",
                [
                    Column(_VUL, "", _strongest(COORDINATOR)),
                    Column("right of 100", f"{COORDINATOR}: right", ".0f"),
                    Column("VUL, final model", "", _strongest(MODEL)),
                    Column("epsilon proven", "lower_epsilon", ".2f"),
                    Column("epsilon promised", "epsilon", "g"),
                ],
            )
        ],
        3,
        # 0: as many as the part has.
        settings={"refits": 0, "candidates": 0},
        fast={"refits": 4},
        smoke={"refits": 2, "candidates": 40},
        fast_rows=[row.name for name in _QUICK for row in _rows(name, PARTS[name])],
        smoke_rows=[
            row.name for row in _rows("hospitals-linear", PARTS["hospitals-linear"]) if row.settings["method"] in _TRIED
        ],
        loaders=SENTIMENT,
        paper="FedCT, Table 1, VUL",
    )
}
