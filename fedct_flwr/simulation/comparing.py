"""Algorithms and learners on one data set: which runs are compared, and their standing.

Under each seed all methods see the same split, so their differences are paired. Splits of one data set share most of
their training records, so the corrected resampled t-test adds the share of test records to the variance (C. Nadeau,
Y. Bengio, "Inference for the generalization error", Machine Learning 52, 2003, §3.2, eq. 9):

    variance of the mean difference = (1 / seeds + test records / training records) * variance over the seeds

All methods are compared with the one of the highest mean. The same seeds choose it, so p-values are adjusted for all
pairs of methods (S. Holm, Scandinavian Journal of Statistics 6, 1979).
"""

import math
import sys
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table
from scipy import stats

from fedct_flwr.algorithms import ALGORITHMS
from fedct_flwr.datasets import loading
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.runs.scores import Test
from fedct_flwr.simulation.notebook import DataFrame, RichRepr, frame
from fedct_flwr.text.printable import count, cut
from fedct_flwr.types import ConfigError, FedctError, SiloName

if TYPE_CHECKING:
    from fedct_flwr.config.run import RunConfig
    from fedct_flwr.datasets.federated import FederatedDataset
    from fedct_flwr.runs.scores import SiloScores

LEVEL: Final = 0.95
Name = TypeVar("Name", bound=Hashable)


class Standing(NamedTuple):
    """One method: its mean score over ``seeds``, and how far it is from the best.

    ``low`` and ``high`` are the 95% interval of the mean ``difference`` to the best, for this comparison alone. ``p``
    is adjusted for all pairs of methods. NaN where chance cannot be judged: one seed, or seeds that change nothing.
    """

    name: str
    mean: float
    seeds: int
    difference: float
    low: float
    high: float
    p: float

    @property
    def differs(self) -> bool:
        """Whether it is worse than the best beyond chance."""
        return self.p < 1 - LEVEL


def ranked(scores: Mapping[str, Sequence[float]], test_per_train: float) -> list[Standing]:
    """Methods from the best mean to the worst; ``scores`` has a value for each seed, in the same order for all.

    ``test_per_train`` is the number of test records per training record. The best has no interval and no p-value.

    >>> scores = {"a": [0.9, 0.8, 0.85], "b": [0.5, 0.41, 0.44], "c": [0.8, 0.88, 0.8]}
    >>> [(standing.name, standing.differs) for standing in ranked(scores, test_per_train=0.1)]
    [('a', False), ('c', False), ('b', True)]
    """
    values = {name: np.asarray(of, dtype=np.float64) for name, of in scores.items()}
    order = sorted(values, key=lambda name: -values[name].mean())
    best = values[order[0]]
    judged = {}
    for pair in combinations(order, 2):
        differences = (values[pair[1]] - values[pair[0]]).tolist()
        judged[pair] = over_seeds(fmean(differences), standard_error(differences), len(best), test_per_train)
    adjusted = holm({pair: p for pair, (*_, p) in judged.items()})
    nan = math.nan
    standings = [Standing(order[0], float(best.mean()), len(best), 0.0, nan, nan, nan)]
    for name in order[1:]:
        mean, pair = float(values[name].mean()), (order[0], name)
        low, high, _ = judged[pair]
        standings.append(Standing(name, mean, len(best), mean - standings[0].mean, low, high, adjusted[pair]))
    return standings


def standard_error(values: Sequence[float]) -> float:
    """Of the mean of values, one for each seed; NaN for one value, and for equal ones, which tell nothing of chance."""
    spread = stdev(values) if len(values) > 1 else 0.0
    return spread / math.sqrt(len(values)) if spread > np.finfo(np.float64).eps else math.nan


def over_seeds(mean: float, error: float, seeds: int, test_per_train: float) -> tuple[float, float, float]:
    """The 95% interval of a mean difference and its p-value, two-sided; ``error`` is its ``standard_error``."""
    if math.isnan(error):
        return math.nan, math.nan, math.nan
    error *= math.sqrt(1 + seeds * test_per_train)
    reach = float(stats.t.ppf(0.5 + LEVEL / 2, seeds - 1)) * error
    return mean - reach, mean + reach, float(2 * stats.t.sf(abs(mean) / error, seeds - 1))


def holm(p: Mapping[Name, float]) -> dict[Name, float]:
    """p-values adjusted so that the chance of any false difference stays below the level; NaN stays NaN.

    >>> {name: round(value, 6) for name, value in holm({"a": 0.01, "b": 0.04, "c": 0.03}).items()}
    {'a': 0.03, 'c': 0.06, 'b': 0.06}
    """
    known = sorted((name for name in p if not math.isnan(p[name])), key=lambda name: p[name])
    adjusted, before = dict.fromkeys(set(p) - set(known), math.nan), 0.0
    for place, name in enumerate(known):
        before = adjusted[name] = max(before, min(1.0, (len(known) - place) * p[name]))
    return adjusted


def verdict(standings: Sequence[Standing]) -> str:
    """One sentence: which differences mean something."""
    best, *others = standings
    if not others:
        return f"{best.name} is the only one with scores: there is nothing to compare it with"
    if all(math.isnan(other.p) for other in others):
        why = "there is a single seed" if best.seeds == 1 else "all seeds give the same differences"
        return f"no difference can be told from chance, as {why}: compare over more seeds and splits"
    if not (same := [other for other in others if not other.differs]):
        return f"{best.name} is better than all others beyond chance"
    if len(same) == len(others):
        return "no difference to the best means anything: choose by what leaves, by time, or compare over more seeds"
    return (
        f"{len(same)} of {len(others)} others cannot be told from {best.name}: choose among them by what leaves, by "
        "time, or compare over more seeds"
    )


ALONE: Final = "alone"
_OF_DATA: Final = frozenset({"data"}.union(*loading.SETTINGS.values()))
"""Settings that decide what records silos have: runs that differ in them were not asked the same."""

_RECORDS: Final = "records"
"""Fact of a run about files: the digest of the silos' records."""
_SAME: Final = frozenset({"run-dir", "resume", "baselines", "seed", "study"})
"""Settings that do not make another method of a run."""
_LONGEST: Final = 40
"""Characters of a setting that a name shows, unless two names are then the same."""

_Scores: TypeAlias = dict[int, dict[SiloName, float]]
"""Of one method: by seed and silo."""


class ScoredRun(Protocol):
    """The part of a ``Run`` that is compared."""

    config: "RunConfig"
    path: Path

    @property
    def records(self) -> Sequence[Mapping[str, Any]]:
        """Record of each round."""

    @property
    def rows(self) -> Sequence["SiloScores"]:
        """Scores of each silo."""

    @property
    def measure(self) -> str:
        """Name of the score."""

    @property
    def dataset(self) -> "FederatedDataset":
        """The data that it was about. Raises ConfigError or DataError where they cannot be read any more."""


class LeftOut(NamedTuple):
    """A run that cannot be compared, and the reason."""

    name: str
    reason: str


class Pair(NamedTuple):
    """An algorithm with a learner."""

    algorithm: str
    learner: str

    def __str__(self) -> str:
        return f"{self.algorithm}, {self.learner}"

    @property
    def folder(self) -> str:
        """The name of the folder of its runs."""
        return "".join(c if c.isalnum() or c in "._-" else "_" for c in f"{self.algorithm}+{self.learner}")


def pairs_of(algorithms: Sequence[str], learners: Sequence[str]) -> list[Pair]:
    """Each algorithm with each learner, once. Raises ConfigError for fewer than two."""
    found = list(dict.fromkeys(Pair(*names) for names in product(algorithms, learners)))
    if len(found) < 2:
        raise ConfigError("there is nothing to compare: name several algorithms or several learners")
    return found


@dataclass(frozen=True, repr=False)
class Comparison(RichRepr):
    """Methods from the best to the worst, by the mean over silos of a score on their own or the pooled test set.

    ``rounds``: the mean over the seeds, by the method's name; silos alone have none.
    """

    standings: Sequence[Standing]
    left_out: Sequence[LeftOut]
    test: Test
    measure: str
    seeds: Sequence[int]
    rounds: Mapping[str, float]

    @property
    def scores(self) -> DataFrame:
        """One row for each method, from the best mean. Needs pandas."""
        return frame([one._asdict() for one in self.standings], "name")

    def _headline(self) -> str:
        return verdict(self.standings)

    def _table(self) -> Table:
        table = Table(box=SIMPLE_HEAD, pad_edge=False)
        words = "own test" if self.test == "own" else "pooled test"
        table.add_column(f"{self.measure},\n{words}, {count(len(self.seeds), 'seed')}", overflow="fold")
        for title in ("rounds", "mean", "to the\nbest", "95% interval", "p"):
            table.add_column(title, justify="right", no_wrap=True)
        table.add_column("", no_wrap=True)
        for standing in self.standings:
            known = not math.isnan(standing.low)
            mark = "best" if standing is self.standings[0] else "" if standing.differs or not known else "within chance"
            table.add_row(
                escape(standing.name),
                f"{self.rounds[standing.name]:.3g}" if standing.name in self.rounds else "",
                f"{standing.mean:.3f}",
                "" if standing is self.standings[0] else f"{standing.difference:+.3f}",
                f"{standing.low:+.3f} to {standing.high:+.3f}" if known else "",
                f"{standing.p:.3f}" if known else "",
                mark,
                style="bold" if mark else None,
            )
        return table


def compared(
    runs: Mapping[str, Sequence[ScoredRun]], left_out: Sequence[LeftOut] = (), test: Test | None = None
) -> Comparison:
    """The standing of groups of runs by name, which differ in their seeds within a group.

    Silos that train alone are a group of their own for each learner, if its runs have that baseline. Each seed counts
    if all groups have it, and in it each silo that all groups have a score of. Without ``test`` it is the own test set,
    or the pooled one where no silo has records of its own to test with. Raises ConfigError for runs about other data,
    or if nothing is left to compare.
    """
    everything = [run for of_group in runs.values() for run in of_group]
    _check_data(everything)
    out = list(left_out)
    chosen: Test = test or "own"
    if not any((found := _scores_by_name(runs, chosen)).values()) and test is None:
        chosen = "pooled"
        found = _scores_by_name(runs, chosen)
    out += [LeftOut(name, "its runs have no scores of silos' models") for name, scores in found.items() if not scores]
    found = {name: scores for name, scores in found.items() if scores}
    if not found:
        raise ConfigError("no run has scores to compare: name runs that fedct simulate has finished")
    seeds = sorted(set.intersection(*map(set, found.values())))
    common = {seed: set.intersection(*(set(scores[seed]) for scores in found.values())) for seed in seeds}
    common = {seed: silos for seed, silos in common.items() if silos}
    if not common:
        raise ConfigError("the runs have no seed and no silo in common: compare runs with the same seeds")
    means = {
        name: [math.fsum(scores[seed][silo] for silo in silos) / len(silos) for seed, silos in common.items()]
        for name, scores in found.items()
    }
    standings = ranked(means, overlap(everything[0]))
    rounds = {name: sum(len(run.records) for run in of_group) / len(of_group) for name, of_group in runs.items()}
    return Comparison(standings, out, chosen, everything[0].measure, [*common], rounds)


def groups_of(runs: Sequence[ScoredRun]) -> dict[str, list[ScoredRun]]:
    """Runs by what their settings differ in; the seed alone makes no group."""
    found: dict[str, list[ScoredRun]] = {}
    for run in runs:
        found.setdefault(repr([*_settings(run).items()]), []).append(run)
    every = [_settings(of_group[0]) for of_group in found.values()]
    keys = dict.fromkeys(key for of in every for key in of)
    # Leave out settings that belong to another algorithm.
    differing = [key for key in keys if len({repr(values[key]) for values in every if key in values}) > 1]

    def names(longest: int) -> list[str]:
        return [
            ", ".join(f"{key}={cut(str(of[key]), longest)}" for key in differing if of.get(key, "") != "")
            for of in every
        ]

    if len({*(named := names(_LONGEST))}) < len(every):
        named = names(sys.maxsize)
    often = Counter(named)
    named = [name if name and often[name] == 1 else f"{name or 'run'} {place}" for place, name in enumerate(named, 1)]
    return dict(zip(named, found.values(), strict=True))


def _settings(run: ScoredRun) -> dict[str, Any]:
    return {key: value for key, value in run.config.to_flower().items() if key not in _SAME}


def _scores_by_name(runs: Mapping[str, Sequence[ScoredRun]], test: str) -> dict[str, _Scores]:
    found = {name: _scores(of_group, test, "federated") for name, of_group in runs.items()}
    learners: dict[str, dict[str, tuple[Any, _Scores]]] = {}
    for name, of_group in runs.items():
        config = of_group[0].config
        of_learner = learners.setdefault(",".join(config.learner), {})
        # The same learner alone is one method, unless its parameters or its scores differ.
        alone = (config.learner_params, _scores(of_group, test, "local"))
        if alone[1] and alone not in of_learner.values():
            of_learner[name] = alone
    for learner, several in learners.items():
        found |= {f"{ALONE}, {name if len(several) > 1 else learner}": scores for name, (_, scores) in several.items()}
    return found


def _scores(runs: Sequence[ScoredRun], test: str, method: str) -> _Scores:
    found = {
        run.config.seed: {row.silo: s for row in run.rows if not math.isnan(s := row.value(test, method))}
        for run in runs
    }
    return {seed: scores for seed, scores in found.items() if scores}


def _check_data(runs: Sequence[ScoredRun]) -> None:
    first = _of_data(runs[0])
    for run in runs[1:]:
        settings = _of_data(run)
        if changed := sorted(key for key in {*_OF_DATA, _RECORDS} if settings.get(key) != first.get(key)):
            raise ConfigError(
                f"{run.path} and {runs[0].path} are about other data ({', '.join(changed)}): compare runs on the same "
                "records"
            )


def _of_data(run: ScoredRun) -> dict[str, Any]:
    """Settings of data that have to be equal; of files the records, and not the folder."""
    settings: dict[str, Any] = run.config.to_flower()
    records = RunFolder(run.path).read_json("config.json").get(_RECORDS)
    return settings | {"data-dir": "", _RECORDS: records} if records else settings


def overlap(run: ScoredRun) -> float:
    """Test records per training record, by the data or, if they are gone, by the settings."""
    try:
        silos = run.dataset.silos
        return sum(silo.test.size for silo in silos) / sum(silo.private.size for silo in silos)
    except FedctError:
        share = run.config.test_fraction
        return share / (1 - share)


def settings_for(settings: Mapping[str, Any], pair: Pair, *, alone: bool) -> dict[str, Any]:
    """The run-config values of a pair; ``alone``: silos alone are trained too.

    How many rounds there are is said to the algorithms that have several. Where silos end with no model of their own,
    the student is of the pair's learner, unless one is set.
    """
    how = ALGORITHMS.get(pair.algorithm)
    asks_once = how is not None and how.asks_once
    student = {"student": pair.learner, "student-params": settings.get("learner-params", "{}")}
    return {
        **(student if how and how.leaves_student and not settings.get("student") else {}),
        **{key: value for key, value in settings.items() if not (asks_once and key == "num-server-rounds")},
        "algorithm": pair.algorithm,
        "learner": pair.learner,
        "baselines": "local" if alone else "none",
    }
