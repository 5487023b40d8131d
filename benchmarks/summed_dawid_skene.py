"""What Dawid-Skene's EM would open about single silos, if each of its steps were a secure sum.

EM needs one sum per step: given the posterior, a silo computes its own confusion matrix and adds the log-likelihoods of
its votes, in fixed point. The posterior is then that of ``consensus.dawid_skene``. But a silo adds numbers of its own,
which no other silo has: they are its mark. Here a coordinator that follows the protocol reads marks, from two sums: the
counts of the votes, which say how many silos differ from the majority, and the first step of EM.

1. An example on which all silos agree shows what all together add for votes for that class.
2. Where one silo alone differs, the difference from that is the silo's mark: what it adds for the one vote instead of
   the other, the same wherever it casts this vote.
3. Where two or three differ, marks that add up to the difference tell which silos these are.

Nothing is guessed: an example counts as read where one set of marks explains the sum to the last bit.
"""

import copy
import time
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks import report
from benchmarks.federation import Runs
from fedct_flwr import datasets
from fedct_flwr.config import RunConfig
from fedct_flwr.consensus.dawid_skene import _CAP, _EVEN, _PSEUDO_COUNT, _TOLERANCE, estimate
from fedct_flwr.consensus.label_matrix import LabelMatrix
from fedct_flwr.learners.build import named_learner

GRID: Final = 1 << 20
"""Units of a log-likelihood: so fine that the posterior is that without sums to 1e-5."""
_MOST_DIFFER: Final = 3
_DEFAULT_SEEDS: Final = 3
_FASHION: Final = {"data": "fashion-mnist", "public-size": 1000}

SETTINGS: Final[dict[str, dict[str, Any]]] = {
    "four hospitals": {"data": "heart-disease"},
    **{
        f"FashionMNIST, {silos} silos of 200": {**_FASHION, "num-silos": silos, "private-size": 200 * silos}
        for silos in (4, 10, 20, 50, 100)
    },
}

Integers = NDArray[np.int64]


class Summed(NamedTuple):
    """EM by sums: the ``posterior`` ``(examples, classes)``, and all that was opened, ``(examples, classes)`` each."""

    posterior: NDArray[np.float64]
    counts: Integers
    steps: list[Integers]


class Dissent(NamedTuple):
    """A vote that was read: for ``vote`` where most silos vote for ``usual``, by the silo that has this ``mark``."""

    usual: int
    vote: int
    mark: bytes


def run(seeds: int | None, fast: bool) -> None:
    """Votes that Dawid-Skene in secure sums would show, of 4 to 100 silos."""
    start = time.perf_counter()
    runs: dict[str, Runs] = {}
    for name in list(SETTINGS)[:2] if fast else SETTINGS:
        for seed in range(2 if fast else seeds or _DEFAULT_SEEDS):
            runs.setdefault(name, Runs()).add(**measured(*votes_of(SETTINGS[name], seed)))
        # After each: a run that is stopped leaves what it measured.
        about = {"grid": GRID, "learner": "random-forest"}
        report.write("secure-sum-dawid-skene", text(runs), runs, about, time.perf_counter() - start)


def votes_of(settings: Mapping[str, Any], seed: int) -> tuple[NDArray[np.uint8], int]:
    """What silos' own forests say of the public set ``(silos, examples)``, and the number of classes."""
    config = RunConfig.from_flower({"study": "benchmark", "learner": "random-forest", "seed": seed, **settings})
    dataset = datasets.load(config)
    votes = []
    for position, silo in enumerate(dataset.silos):
        learner = copy.deepcopy(named_learner(config, dataset, position, silo.private.X))
        learner.fit(*silo.private)
        votes.append(learner.predict(dataset.public.X).astype(np.uint8))
    return np.stack(votes), len(dataset.schema.classes)


def measured(votes: NDArray[np.uint8], num_classes: int) -> dict[str, float]:
    """What is read of these votes, each read one compared with the vote that was cast."""
    found = by_sums(votes, num_classes)
    names = [str(silo) for silo in range(len(votes))]
    matrix = LabelMatrix(names, votes, num_classes)
    fair = estimate(matrix, even=np.inf)
    plain = estimate(matrix, begin=fair.posterior, even=_EVEN)
    usual = found.counts.argmax(axis=1)
    differ = (votes != usual).any(axis=0)
    read = dict(readings(found.counts, found.steps[0]))
    silo_of = {
        dissents[0]: int(np.flatnonzero(votes[:, example] != usual[example])[0])
        for example, dissents in read.items()
        if len(dissents) == 1
    }
    silo_of |= {Dissent(one.vote, one.usual, _opposite(one.mark)): silo for one, silo in silo_of.items()}
    right = sum(
        {(silo_of[one], one.vote) for one in dissents}
        == {(int(silo), int(votes[silo, example])) for silo in np.flatnonzero(votes[:, example] != usual[example])}
        for example, dissents in read.items()
    )
    return {
        "silos": len(votes),
        "sums": 1 + len(found.steps),
        "off": float(np.abs(found.posterior - plain.posterior).max()),
        "differ": float(differ.mean()),
        "read": right / max(1, int(differ.sum())),
        "wrong": float(len(read) - right),
        "marked": float(len(set(silo_of.values()))),
    }


def by_sums(votes: NDArray[np.uint8], num_classes: int) -> Summed:
    """Dawid and Skene's EM as ``dawid_skene`` runs it, in which only sums over silos are known to the coordinator."""
    counts = np.stack([(votes == label).sum(axis=0) for label in range(num_classes)], axis=1)
    posterior = counts / counts.sum(axis=1, keepdims=True)
    steps: list[Integers] = []
    for even in (np.inf, _EVEN):
        change = np.inf
        for _ in range(_CAP):
            examples = posterior.sum(axis=0) + even
            priors = examples / examples.sum() if np.isfinite(even) else np.full(num_classes, 1 / num_classes)
            total = np.zeros_like(counts)
            for own in votes:
                total += log_likelihoods(own, posterior)
            steps.append(total)
            scores = np.log(priors) - total / GRID
            scores = np.exp(scores - scores.max(axis=1, keepdims=True))
            scores /= scores.sum(axis=1, keepdims=True)
            change, posterior = np.abs(scores - posterior).max(), scores
            if change <= _TOLERANCE:
                break
    return Summed(posterior, counts, steps)


def log_likelihoods(votes: NDArray[np.uint8], posterior: NDArray[np.float64]) -> Integers:
    """What a silo adds ``(examples, classes)``: how unlikely its votes are under each class, in units of the grid."""
    num_classes = posterior.shape[1]
    confusion = np.stack([posterior[votes == label].sum(axis=0) for label in range(num_classes)], axis=1)
    confusion += _PSEUDO_COUNT
    confusion /= confusion.sum(axis=1, keepdims=True)
    units: Integers = np.rint(-GRID * np.log(confusion)).astype(np.int64)
    return units[:, votes].T


def readings(counts: Integers, total: Integers) -> Iterator[tuple[int, tuple[Dissent, ...]]]:
    """Examples on which silos differ, with all votes that are not the usual one, where these sums tell whose they are.

    ``counts`` and ``total`` ``(examples, classes)`` are all that it knows.
    """
    silos, usual = int(counts[0].sum()), counts.argmax(axis=1)
    differ = silos - counts.max(axis=1)
    agreed = {int(usual[example]): total[example] for example in np.flatnonzero(differ == 0)}
    marks: dict[tuple[int, int], dict[bytes, Integers]] = {}
    few = [int(example) for example in np.flatnonzero((differ > 0) & (differ <= _MOST_DIFFER))]
    known = [example for example in few if int(usual[example]) in agreed]
    others = {example: _others(counts[example], int(usual[example])) for example in known}
    for example in known:
        if len(others[example]) == 1:
            (vote,), common = others[example], int(usual[example])
            mark = total[example] - agreed[common]
            marks.setdefault((common, vote), {})[mark.tobytes()] = mark
            marks.setdefault((vote, common), {})[(-mark).tobytes()] = -mark
    for example in known:
        common, votes = int(usual[example]), others[example]
        *first, last = [marks.get((common, vote), {}) for vote in votes]
        solutions = set()
        for chosen in product(*first):
            rest = total[example] - agreed[common]
            for each, mark in zip(first, chosen, strict=True):
                rest = rest - each[mark]
            if rest.tobytes() in last:
                solutions.add(tuple(sorted(zip(votes, (*chosen, rest.tobytes()), strict=True))))
        if len(solutions) == 1:
            (solution,) = solutions
            yield example, tuple(Dissent(common, vote, mark) for vote, mark in solution)


def _others(counts: Integers, usual: int) -> list[int]:
    """The votes that are not the usual one."""
    return [vote for vote in range(len(counts)) for _ in range(int(counts[vote])) if vote != usual]


def _opposite(mark: bytes) -> bytes:
    return (-np.frombuffer(mark, dtype=np.int64)).tobytes()


def text(runs: Mapping[str, Runs]) -> str:
    """What was measured, as a table."""
    header = [
        "silos", "secure sums a round", "posterior off by at most", "examples on which silos differ",
        "of these, whose votes are read", "read wrongly", "silos whose votes are read",
    ]  # fmt: skip
    rows = [
        [
            name,
            f"{found.mean('sums'):.0f}",
            f"{max(found.values['off']):.0e}",
            f"{found.mean('differ'):.0%}",
            report.cell(found, "read"),
            f"{sum(found.values['wrong']):.0f}",
            f"{found.mean('marked'):.1f} of {found.mean('silos'):.0f}",
        ]
        for name, found in runs.items()
    ]
    seeds = len(next(iter(runs.values())).values["silos"])
    return (
        f"# Votes that Dawid-Skene in secure sums would show, {seeds} seeds\n\n"
        "Silos' own random forests label the public set, in one round. If each step of EM were a secure sum, the "
        "posterior would be the same, and the coordinator could read votes. Here it looks at the counts and at the "
        "first step alone, and tells silos apart without knowing their names. *Read*: of the examples on which silos "
        "differ, the share where it knows the vote of each silo, mean ± standard error. *Read wrongly*: examples where "
        "it is mistaken, in all seeds together.\n\n" + report.table(header, rows)
    )
