"""One of four hospitals lies about its labels: what the three honest ones lose, with the guard and without it.

Each hospital is the liar once for each seed. An honest hospital's loss is that of the model it ends with against its
own model alone, on its own test records; where numbers are predicted, by R² on all silos' test records.
"""

import logging
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final, NamedTuple
from unittest.mock import patch

import numpy as np
from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from sklearn.metrics import r2_score

from benchmarks.harness import Column, Grid, Row, Settings, Table
from client_app.main import app as client_app
from fedct_flwr import datasets, secure_sum, silo
from fedct_flwr.config.run import RunConfig
from fedct_flwr.evaluation.references import local_only
from fedct_flwr.evaluation.scoreboard import against_sums, judgments
from fedct_flwr.flower.loopback import run_loopback, simulated_nodes
from fedct_flwr.learners import Learner
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.scoring import balanced_accuracy
from fedct_flwr.secure_sum.terms import BITS, BITS_OF_VOTES
from fedct_flwr.silo import round as one_round
from fedct_flwr.silo.round import open_silo_context
from fedct_flwr.types import Examples, RunError, SiloName, TrainingError
from fedct_flwr.wire.messages import ACTION
from server_app.main import app as server_app

LIFTED: Final = 2
"""Votes that a liar in a sum moves from one class to the other, next to its own: its row still adds up to 1."""


class Lie(NamedTuple):
    """``settings`` of the run; ``votes`` makes the liar's of its own; ``lifted``, ``times``: of its part of a sum."""

    settings: dict[str, Any]
    votes: Callable[[Any], Any] = lambda votes: votes
    lifted: int = 0
    times: int = 1


def turned(votes: Any) -> Any:
    """The other class, for labels and for probabilities of two."""
    return votes[:, ::-1].copy() if votes.ndim == 2 else (1 - votes).astype(votes.dtype)


def one_class(votes: Any) -> Any:
    """The second class, whatever the example."""
    return np.broadcast_to(np.eye(2, dtype=votes.dtype)[1], votes.shape).copy() if votes.ndim == 2 else 0 * votes + 1


def shifted(votes: Any) -> Any:
    """Numbers that are three standard deviations too high."""
    return (votes + 3 * votes.std()).astype(votes.dtype)


_RULES: Final = {
    "majority": {"algorithm": "fedct"},
    "Dawid-Skene": {"algorithm": "fedct-dawid-skene"},
    "trust": {"algorithm": "prediction-consensus"},
}
_SUMS, _JOINT = {"algorithm": "fedct", "secure": True}, {"algorithm": "fedct-joint", "epsilon": 1.0}
_VALUES: Final = {"data": "diabetes"}
LIES: Final = {
    **{f"{name}, none": Lie(rule) for name, rule in _RULES.items()},
    **{f"{name}, labels turned": Lie(rule, turned) for name, rule in _RULES.items()},
    **{f"{name}, one class": Lie(rule, one_class) for name, rule in _RULES.items()},
    "majority in sums, none": Lie(_SUMS),
    "majority in sums, labels turned": Lie(_SUMS, turned),
    "majority in sums, labels turned and counted -2 and +3": Lie(_SUMS, turned, lifted=LIFTED),
    "joint labeler, none": Lie(_JOINT),
    **{f"joint labeler, gradient times {times}": Lie(_JOINT, times=times) for times in (-1, -3, 10)},
    "values by dd, none": Lie({"algorithm": "dd", **_VALUES}),
    "values by dd, shifted": Lie({"algorithm": "dd", **_VALUES}, shifted),
    "values by dd, 1000": Lie({"algorithm": "dd", **_VALUES}, lambda votes: np.full_like(votes, 1000)),
    "values by trust, shifted": Lie({"algorithm": "prediction-consensus", **_VALUES}, shifted),
}


def measured(settings: Settings) -> dict[str, float]:
    """Means over liars and honest hospitals: the score alone, what labels add; shares of runs warned of and ended."""
    logging.getLogger("flwr").setLevel(logging.CRITICAL)
    lie = LIES[settings["lie"]]
    alone: list[float] = []
    warned: list[bool] = []
    ended: list[bool] = []
    gains: dict[str, list[float]] = {"plain": [], "guarded": []}
    for kind, weight in (("plain", 1.0), ("guarded", "auto")):
        for liar in range(settings["liars"]):
            before, after, said, early = _run(lie, liar, {"pseudo-weight": weight, "seed": settings["seed"]})
            alone += before
            gains[kind] += [new - old for old, new in zip(before, after, strict=True)]
            ended.append(early)
            warned += [said] if kind == "guarded" else []
    found = {kind: float(np.mean(values)) for kind, values in gains.items()}
    return {"alone": float(np.mean(alone)), **found, "warned": float(np.mean(warned)), "ended": float(np.mean(ended))}


def _run(lie: Lie, liar: int, settings: dict[str, Any]) -> tuple[list[float], list[float], bool, bool]:
    learner = "ridge" if "data" in lie.settings else "logistic-regression"
    models: dict[SiloName, Learner] = {}
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        reply = client_app(message, context)
        site = open_silo_context(context).site
        with suppress(TrainingError):
            site.learner.predict(site.pooled_test.X[:1])
            models[site.silo] = site.learner
        return reply

    app.query(ACTION)(client_app)
    with tempfile.TemporaryDirectory() as temporary:
        config = RunConfig.from_flower(
            {"study": "liars", "data": "heart-disease", "learner": learner, **settings, **lie.settings,
             "run-dir": str(Path(temporary) / "run"), "save-models": False}
        )  # fmt: skip
        dataset = datasets.load(config)
        names = [one.name for one in dataset.silos]
        early = False
        with _lying(lie, names[liar]):
            try:
                run_loopback(server_app, app, config.to_flower(), simulated_nodes(len(names)))
            except RunError:
                early = True
        folder = RunFolder(Path(config.run_dir))
        warned = any(against_sums(folder, judgments(folder, names)))
    honest = [place for place in range(len(names)) if place != liar]
    if dataset.schema.outcome.number:
        tests, score = [dataset.test] * len(names), _explained
    else:
        tests, score = [one.test for one in dataset.silos], balanced_accuracy
    pairs = []
    for place in honest:
        alone = score(local_only(config, dataset, place), tests[place])
        # A run that ends before a hospital has learned leaves it its own model.
        learned = score(models[names[place]], tests[place]) if names[place] in models else alone
        # A small test set may hold a single class, and has no score then.
        pairs += [] if np.isnan(alone) else [(alone, learned)]
    before, after = map(list, zip(*pairs, strict=True))
    return before, after, warned, early


def _explained(model: Learner, test: Examples) -> float:
    return float(r2_score(test.y, model.predict(test.X)))


@contextmanager
def _lying(lie: Lie, liar: SiloName) -> Iterator[None]:
    """Within it, the silo's program is another one at the liar."""
    here: ContextVar[bool] = ContextVar("here", default=False)
    reply, summand, gradient = one_round._reply, secure_sum.summand, silo.noisy_gradient

    def lied_reply(question: Any, context: Any, votes: Any, **how: Any) -> bytes:
        here.set(context.site.silo == liar)
        return reply(question, context, lie.votes(votes) if here.get() else votes, **how)

    def lied_summand(votes: Any, instruction: Any, terms: Any) -> Any:
        vector = summand(votes, instruction, terms)
        lift = np.where(vector > 0, lie.lifted, -lie.lifted) if here.get() else np.zeros(len(vector), int)
        bits = BITS if instruction.noise else BITS_OF_VOTES
        return (vector.astype(np.int64) + lift).astype(np.uint64) & np.uint64(2**bits - 1)

    def lied_gradient(site: Any, *asked: Any) -> Any:
        found = gradient(site, *asked)
        return (found.view(np.int64) * lie.times).view(np.uint64) if site.silo == liar else found

    with (
        patch.object(one_round, "_reply", lied_reply),
        patch.object(secure_sum, "summand", lied_summand),
        patch.object(silo, "noisy_gradient", lied_gradient),
        patch("fedct_flwr.secure_sum.silo._checked", lambda vector, shape: vector),
    ):
        yield


TABLES: Final = {
    "liars": Table(
        "One liar of four",
        f"{' '.join((__doc__ or '').split())} Logistic regression; ridge for numbers. Plain: labels count as much as "
        "records; guarded: by `auto`. Warned of: guarded runs where half of the silos' records spoke against what sums "
        "taught. Runs end early where a sum is refused that honest silos cannot have made.",
        [Row(name, {"lie": name}) for name in LIES],
        {"": measured},
        [
            Grid(
                "rule, and the lie",
                [
                    Column("alone", "alone"),
                    Column("gain, plain", "plain"),
                    Column("gain, guarded", "guarded"),
                    Column("warned of", "warned", ".0%"),
                    Column("ended early", "ended", ".0%"),
                ],
            )
        ],
        3,
        settings={"liars": 4},
        smoke={"liars": 1},
        smoke_rows=["majority in sums, labels turned", "joint labeler, gradient times 10"],
    )
}
