"""A run folder as plain values. Nothing here draws."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedct_flwr import privacy, silo
from fedct_flwr.config.run import STUDY, RunConfig
from fedct_flwr.coordinator.algorithm import find_algorithm
from fedct_flwr.datasets.inspection.table_one import FILE as TABLE_ONE
from fedct_flwr.datasets.inspection.table_one import TableOne
from fedct_flwr.files import DAMAGED, UNREADABLE
from fedct_flwr.privacy.budget import ALL_SILOS, DATA_SET, SILOS_TOGETHER, PrivacyUnit, Spending, budget_of
from fedct_flwr.report.kind_words import words_of
from fedct_flwr.runs.records import certificate, scores_of_all
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.runs.scores import FILE, VERDICT, Test, means, of_global_models, read
from fedct_flwr.types import ConfigError, FedctError, RunError, SiloName
from fedct_flwr.wire.kinds import HARD
from fedct_flwr.wire.numbers import kind_for
from fedct_flwr.wire.sums import SUMS, SUMS_WITH_NOISE

_OF_RUN: Final = ("queried", "abstained", "agreement", "churn", "distance", "moved", "balanced_accuracy")
_OF_SILO: Final = (
    "bytes_sent", "seconds", "agreement", "distance", "own_balanced_accuracy", "pooled_balanced_accuracy",
    "own_r_squared", "pooled_r_squared",
)  # fmt: skip


class Absence(NamedTuple):
    """Why a silo did not count in a round."""

    round: int
    silo: str
    reason: str


@dataclass(frozen=True, eq=False)
class RoundHistory:
    """All rounds that have ended, NaN for what the log does not have; columns are named as in ``rounds.jsonl``.

    ``number`` and each column of ``run`` are ``(rounds,)``, each of ``silo`` is ``(rounds, silos)``, ``classes`` is
    ``(rounds, classes)``: public examples with the class's label. ``quality`` is the last of each silo.
    """

    silos: tuple[SiloName, ...]
    number: NDArray[np.int64]
    run: Mapping[str, NDArray[np.float64]]
    silo: Mapping[str, NDArray[np.float64]]
    classes: NDArray[np.float64]
    absences: tuple[Absence, ...]
    fixed_point: int | None
    quality: Mapping[SiloName, Mapping[str, float]]

    def __len__(self) -> int:
        return len(self.number)

    @property
    def shares_values(self) -> bool:
        """Whether silos share values of a quantity."""
        return bool(np.isfinite(self.run["distance"]).any())

    @property
    def shares_answers(self) -> bool:
        """Whether silos share labels or values; otherwise weights."""
        return bool(np.isfinite(self.run["queried"]).any())


def read_course(folder: RunFolder, silos: Sequence[SiloName], classes: Sequence[str]) -> RoundHistory:
    """The log so far. Raises RunError for a damaged one."""
    records = folder.rounds()
    with _damage(folder.round_log().damaged()):
        names = (*silos, *sorted({silo for record in records for silo in record["silos"]} - set(silos)))
        since = None
        for record in records:
            # The first of the last rounds that are at a fixed point.
            since = (since or record["round"]) if record.get("fixed_point") else None

        def table(rows: Iterable[Iterable[Any]], columns: Sequence[str]) -> NDArray[np.float64]:
            values = [finite(value) for row in rows for value in row]
            return np.array(values, dtype=np.float64).reshape(len(records), len(columns))

        return RoundHistory(
            silos=names,
            number=np.array([record["round"] for record in records], dtype=np.int64),
            run={name: table(([_value(record, name)] for record in records), [name])[:, 0] for name in _OF_RUN},
            silo={
                name: table(([_value(record["silos"].get(s, {}), name) for s in names] for record in records), names)
                for name in _OF_SILO
            },
            classes=table((map((record.get("class_counts") or {}).get, classes) for record in records), classes),
            absences=tuple(
                Absence(record["round"], silo, str(why))
                for record in records
                for silo, why in (record.get("absent") or {}).items()
            ),
            fixed_point=since,
            quality={
                silo: {name: float(value) for name, value in of["quality"].items() if isinstance(value, int | float)}
                for record in records
                for silo, of in record["silos"].items()
                if of.get("quality")
            },
        )


@contextmanager
def _damage(error: RunError) -> Iterator[None]:
    """Raise this error where a file is not of the form that is expected."""
    try:
        yield
    except DAMAGED:
        raise error from None


def _value(record: Mapping[str, Any], name: str) -> Any:
    """A value by its name, which may be one of the scores."""
    return record[name] if name in record else (record.get("scores") or {}).get(name)


def finite(value: Any) -> float:
    """A number of a JSON file; NaN for none, and for one without end. Raises like ``float``.

    >>> finite(3), finite(None), finite(float("inf"))
    (3.0, nan, nan)
    """
    number = math.nan if value is None else float(value)
    return number if math.isfinite(number) else math.nan


_MODELS: Final = {"own": "its own", "co-trained": "co-trained"}


class PrivacySpending(NamedTuple):
    """``note`` says in a sentence what the figures are, or why there are none."""

    note: str
    rows: tuple[Spending, ...] = ()


class Gains(NamedTuple):
    """Gains and losses: ``sentences`` on all silos, ``warnings``, and a row for each silo's view of the consensus."""

    sentences: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


class RunSummary:
    """The run in a folder, as it is by now. Raises RunError for no run, one of a newer version, or a damaged file.

    ``global_scores`` are balanced accuracies on the pooled test set, of models that are no silo's; ``leaves`` says in
    plain words what left a silo; ``kind`` is that of its silos' answers, of labels where they share weights.
    """

    def __init__(self, path: Path) -> None:
        folder = RunFolder(path)
        facts, settings = folder.read_json("config.json"), folder.settings()
        try:
            self.config: Final = RunConfig.from_flower(settings)
            self.versions: Final = {str(name): str(version) for name, version in facts["versions"].items()}
            self.fingerprint: Final = str(facts["public_fingerprint"])
        except (ConfigError, *DAMAGED) as error:
            raise RunError(f"the settings of the run in {path} are not those of this version: {error}") from None
        self.path, self.outcome, self.num_public = path, folder.outcome, folder.num_public
        self.algorithm: Final = find_algorithm(self.config)
        self.title: Final = f"{self.config.study}: {self.algorithm.full_title}"
        self.measure: Final = self.outcome.measure.name
        self.measure_title: Final = self.measure[:1].upper() + self.measure[1:]
        self.leaves: Final = what_leaves(self.config, self.outcome.quantity)
        self.kind: Final = kind_for(self.algorithm.kind or HARD, self.outcome.quantity)
        self.course: Final = read_course(folder, folder.silos, self.outcome.classes)
        result = folder.read_json("result.json") if folder.ended_at() is not None else None
        completed = result is not None and result.get("status") == "completed"
        self.status: Final = "unfinished" if result is None else "completed" if completed else "failed"
        self.reason: Final = str((result or {}).get("reason", ""))
        self.certificate: Final = certificate(result or {})
        self.scores_of_all: Final = scores_of_all(result or {})
        self.global_scores: Final = {} if result is None else _global_scores(folder)
        self.spending: Final = None if result is None else _spending(folder, self.config, result)
        self.scores: Final = read(path / FILE)
        self.gains: Final = _gains(path / VERDICT)
        self.trust: Final = _last_trust(folder)
        self.table_one: Final = _table_one(folder)

    @property
    def bytes_of_a_silo(self) -> float:
        """Mean bytes that a silo sent in all rounds; NaN where it is unknown."""
        sent = self.course.silo["bytes_sent"]
        return float(np.nansum(sent, axis=0).mean()) if np.isfinite(sent).any() else float("nan")

    def means(self, test: Test) -> Mapping[str, float]:
        """By method, over the silos that have a score for each method that any silo has one for; NaN without."""
        return means(self.scores, test)


def _table_one(folder: RunFolder) -> TableOne:
    """Table 1 by site, empty until a simulation has ended. Raises RunError for a damaged file."""
    if not (folder.path / TABLE_ONE).is_file():
        return TableOne()
    with _damage(RunError(f"{folder.path / TABLE_ONE} is damaged: remove it")):
        return TableOne.of_document(folder.read_json(TABLE_ONE)["rows"])


def _global_scores(folder: RunFolder) -> dict[str, float]:
    with _damage(RunError(f"{folder.path / 'result.json'} is damaged: start a new run in another folder")):
        return of_global_models(folder)


def _last_trust(folder: RunFolder) -> tuple[int, dict[SiloName, list[float]]]:
    """The last round that tells it, and by silo its trust in each silo, in their order. Raises RunError."""
    for record in folder.trust()[-1:]:
        with _damage(folder.trust_log().damaged()):
            table = [[float(value) for value in row] for row in record["matrix"]]
            if {len(row) for row in table} - {len(record["silos"])} or not np.isfinite(table).all():
                raise ValueError
            return int(record["round"]), dict(zip(map(str, record["silos"]), table, strict=True))
    return 0, {}


def _gains(path: Path) -> Gains:
    """From a run folder's file; empty where it has none. Raises RunError for a damaged one."""
    try:
        document = json.loads(path.read_text("utf-8"))
        sentences = (str(document[key]) for key in ("after_first_round", "at_the_end"))
        rows = tuple(_gain(silo, facts) for silo, facts in document["judgments"].items())
        return Gains(tuple(filter(None, sentences)), tuple(map(str, document["warnings"])), rows)
    except FileNotFoundError:
        return Gains()
    except UNREADABLE:
        raise RunError(f"{path} is damaged: take it away, and the report goes without") from None


def _gain(silo: SiloName, facts: Mapping[str, Any]) -> tuple[str, ...]:
    test, weight = facts["own_test"], facts["weight"]
    return (
        silo,
        str(facts["learner"] or "the one named"),
        "–" if weight is None else f"{float(weight):g}",
        _MODELS.get(facts["model"], "–"),
        str(facts["why"] or "–"),
        f"{test['verdict']} ({float(test['gain']):+.3f}, p = {float(test['p']):.2g})" if test else "–",
    )


def _spending(folder: RunFolder, config: RunConfig, result: Mapping[str, Any]) -> PrivacySpending:
    """Spending of a run that has ended. The note names a fault of a ledger."""
    cost = result.get("privacy")
    if isinstance(cost, dict) and "epsilon" in cost and "delta" in cost:
        try:
            spent = Spending.from_result(cost)
        except ValueError:
            return PrivacySpending("The run's result does not show the spending.")
        by = "silos, in shares," if spent.where == SILOS_TOGETHER else spent.where
        whom = "not from the coordinator" if spent.where == "coordinator" else "from the coordinator too"
        return PrivacySpending(f"Noise added by the {by} hides each {spent.protects}, {whom}.", (spent,))
    if find_algorithm(config).kind is None and config.method.protects_silos:
        row = Spending(
            whom=ALL_SILOS,
            unit=PrivacyUnit.SILO,
            epsilon=config.epsilon,
            delta=config.delta,
            budget=config.epsilon,
            accountant="settings",
        )
        return PrivacySpending("The noise is measured for this epsilon over all rounds that the settings plan.", (row,))
    if config.protection == "none" and not config.method.trains_together:
        return PrivacySpending("No protection: no noise was added, and there is no formal guarantee.")
    if config.data == STUDY:
        return PrivacySpending("Real silos keep their ledgers to themselves: ask each for its own privacy sheet.")
    try:
        accounts = accounts_of(folder, config)
    except ModuleNotFoundError:
        return PrivacySpending("The silos' ledgers have the spending; the extra 'privacy' reads them.")
    except (FedctError, OSError, ValueError):
        return PrivacySpending("The silos' ledgers in the run folder cannot be read.")
    note = "Recomputed from the silos' ledgers; noise of a simulation follows from a seed and protects no one."
    return PrivacySpending(note, tuple(accounts))


def accounts_of(folder: RunFolder, config: RunConfig, data_set: str = DATA_SET) -> list[Spending]:
    """Accounts in the ledgers of simulated silos, of the records or another ``data_set``. Raises LedgerError."""
    budget = budget_of(config.privacy_settings(config.asked_about(folder.num_public)))
    return [
        silo.account(privacy.Ledger(folder.silo_privacy(name)), name, config.study, budget, data_set)
        for name in folder.silos
    ]


def what_leaves(config: RunConfig, quantity: str) -> str:
    """Describe in plain words what leaves a silo. ``quantity``: the number that is predicted (empty: classes)."""
    algorithm, scores = find_algorithm(config), " and test scores" if config.report_scores else ""
    if algorithm.kind is None:
        return f"{algorithm.leaves}{scores}"
    kind = algorithm.kind if algorithm.kind.added else kind_for(algorithm.kind, quantity)
    # Where silos only add their answers, and perhaps shares of noise.
    sums = SUMS_WITH_NOISE if config.method.noise_in_shares else SUMS if config.method.in_sums else {}
    return f"{words_of(sums.get(kind.name, kind)).shared}{scores}"
