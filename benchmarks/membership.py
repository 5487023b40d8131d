"""Membership inference: the same attacks on all that each method lets travel, and the paper's Table 1, column VUL.

Methods are audited as ``fedct audit`` does it: refits with a random half of the candidates held out, and candidates
planted in the public set. VUL is the area under the curve of the strongest attack; the paper's column is of one attack
(arXiv:2310.05696, Table 1, FashionMNIST). Where a model is given away, its holder attacks.

Each part can be measured alone. The results keep what was measured of the others.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from benchmarks import language, progress, report
from benchmarks.federation import Runs
from benchmarks.membership_rows import Measured, text_of, values_of
from benchmarks.methods import one_thread_per_silo
from benchmarks.sentiment import SENTIMENT
from fedct_flwr import datasets
from fedct_flwr.algorithms.table import ALGORITHMS
from fedct_flwr.audit.adversaries import COORDINATOR, Seen, seen_in_model
from fedct_flwr.audit.audit import About, Audit, How, audit, play
from fedct_flwr.audit.members import Candidates, Members, with_members
from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets import LOADERS
from fedct_flwr.datasets.federated import FederatedDataset, PublicSet, take
from fedct_flwr.evaluation.references import centralized, local_only
from fedct_flwr.seeding import generator

_NAME: Final = "membership"
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
        learner_params=lambda: {"folder": str(language.minilm())},
    ),
    "fashion-mnist": Part(
        "FashionMNIST, 5 silos x 200 images, overfitting networks",
        {
            "data": "fashion-mnist",
            "num-silos": 5,
            "private-size": 1000,
            "public-size": 1000,
            "preprocessing": "none",
            "num-server-rounds": 3,
            "learner": "fashion-mnist-mlp",
            "device": "cpu",
        },
        candidates=300,
        refits=3,
        seeds=2,
        network=True,
        paper={"FedCT": 0.51, "FedAvg": 0.72, "DD": 0.60, "DP-FedAvg (eps 8)": 0.71, "PATE": 0.59},
    ),
}

_FAST_REFITS: Final = 4
_FAST_NETWORKS: Final = {"num-server-rounds": 2, "local-steps": 40}
_NOT_FAST: Final = frozenset({"text-embeddings", "hospitals-networks"})
_LEFT_OUT: Final = frozenset({"FedCT (DS)", "PredCons", "FedMD", "FedKT", _DP_PATE, _LEVEL_2, _LINEAR})
"""In a first look at networks, which take most of its time."""


def run(seeds: int | None, fast: bool, rows: Sequence[str] = ()) -> None:
    """VUL of each method on hospitals, texts and FashionMNIST, by the same attacks, next to the paper's Table 1."""
    one_thread_per_silo()
    LOADERS.update(SENTIMENT)
    runs: dict[str, Runs] = {}
    measured: dict[str, Measured] = {}
    for name in progress.chosen(rows, [name for name in PARTS if not (fast and name in _NOT_FAST)], PARTS):
        measured[name] = _measure(name, seeds, runs, fast=fast)
        # After each part: a run that is stopped leaves what it measured.
        write(runs, measured)


def write(runs: dict[str, Runs], measured: Mapping[str, Measured]) -> None:
    """Write tables and values of all parts that were measured."""
    known = {name: measured[name] for name in PARTS if name in measured}
    titles = {name: PARTS[name].title for name in known}
    papers = {name: PARTS[name].paper for name in known}
    about = {name: found._asdict() for name, found in known.items()}
    report.write(_NAME, text_of(runs, known, titles, papers), runs, {"parts": about})


def _measure(name: str, seeds: int | None, runs: dict[str, Runs], *, fast: bool) -> Measured:
    part = PARTS[name]._replace(refits=_FAST_REFITS) if fast else PARTS[name]
    number = 1 if fast else seeds or part.seeds
    start, spent = time.perf_counter(), time.process_time()
    for method in methods_of(part, fast=fast):
        for seed in range(number):
            found = _audited(part, method, seed, fast=fast)
            runs.setdefault(f"{name}: {method}", Runs()).add(**values_of(found))
    return Measured(
        report.command(),
        part.refits,
        number,
        part.candidates,
        round(time.perf_counter() - start, 1),
        round(time.process_time() - spent, 1),
        report.commit(),
    )


def methods_of(part: Part, *, fast: bool) -> list[str]:
    """Names of the methods that a part has rows of."""
    fitting = [
        method
        for method in METHODS
        if method not in part.without
        and (part.network or method not in _FOR_NETWORKS)
        and not (part.network and fast and method in _LEFT_OUT)
    ]
    return [*fitting, *GIVEN_AWAY]


def _audited(part: Part, method: str, seed: int, *, fast: bool) -> Audit:
    how = How(part.refits, part.candidates, minutes=_LONG, seed=seed)
    if method in GIVEN_AWAY:
        return _given_away(part, GIVEN_AWAY[method], how, fast=fast)
    config = config_of(part, METHODS[method], seed, fast=fast)
    # Data do not depend on the method, and loaders of variants know plain FedCT alone.
    plain = config_of(part, METHODS["FedCT"], seed, fast=fast)
    return audit(config, _dataset(part, plain), how)


def config_of(part: Part, method: Mapping[str, Any], seed: int, *, fast: bool) -> RunConfig:
    """The settings of the run that is audited."""
    algorithm = ALGORITHMS[method["algorithm"]]
    more: dict[str, Any] = {"warm-up-rounds": 1} if part.network and "warm-up-rounds" in algorithm.uses() else {}
    if part.network and fast:
        more |= _FAST_NETWORKS
    params = json.dumps(part.learner_params())
    settings = {"study": _NAME, "learner-params": params, **part.given, **more, **method, "seed": seed}
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


def _given_away(part: Part, train: Any, how: How, *, fast: bool) -> Audit:
    """Models without a federation: of each silo alone, or of all records in one place."""
    config = config_of(part, METHODS["FedCT"], how.seed, fast=fast)
    dataset = _dataset(part, config)

    def see(candidates: Candidates, members: Members, number: int) -> Seen:
        held = with_members(dataset, candidates, members)
        one, found = train(config, held, 0) if train is centralized else None, {}
        for place, silo in enumerate(dataset.silos):
            records = take(silo.private, candidates[silo.name])
            found[silo.name] = seen_in_model(one or train(config, held, place), records, len(dataset.schema.classes))
        return {COORDINATOR: found}

    return play(About("given away", "none", None, config.delta), how, dataset.silos, see)
