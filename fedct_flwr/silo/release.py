"""A labeler's labels or votes, which leave a silo instead of its own models': charged to the silo's ledger first.

One answer is five steps: look whether it was given before, charge, draw, keep the labeler's state together with the
labels, store them in the ledger. Wherever the process is killed, a question asked again is charged once and answered
with the same labels, and no draw goes without a charge.
"""

import hashlib
import json
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import numpy as np
from dp_accounting import DpEvent, NoOpDpEvent

from fedct_flwr import labelers
from fedct_flwr.privacy.budget import DATA_SET, WHOLE_SILO, Budget, PrivacyUnit, Spending, budget_of
from fedct_flwr.privacy.events import from_json, in_words, to_json
from fedct_flwr.privacy.ledger import BudgetExceeded, Ledger
from fedct_flwr.privacy.ledger_file import LedgerError
from fedct_flwr.text.printable import logger
from fedct_flwr.types import ConfigError, Refusal, Refused, SiloName, TrainingError, Votes

if TYPE_CHECKING:
    from fedct_flwr.config.silo import SiloConfig
    from fedct_flwr.labelers.labeler import Asked, Labeler
    from fedct_flwr.privacy.randomness import Noise
    from fedct_flwr.silo.site import LocalState, Site

STATE: Final = "labeler-"
_LABELS: Final = np.dtype("<i2")
# Of the question, SHA-256; lengths of the event and of the labels.
_HEADER: Final = struct.Struct("<32sII")


def own_budget(config: "SiloConfig", data_set: str = DATA_SET) -> Budget:
    """A real silo's budget for each record, or for all its sums together."""
    if data_set == WHOLE_SILO:
        return Budget(config.policy.sum_epsilon, config.policy.sum_delta, PrivacyUnit.SILO)
    return replace(budget_of(config.privacy, grouped=config.grouped), column=config.grouped_by)


def account_of(config: "SiloConfig", study: str, data_set: str = DATA_SET) -> Spending:
    """A real silo's spending on a study, recomputed from the ledger. Makes no ledger. Raises LedgerError."""
    found = account(Ledger(config.state), config.silo, study, own_budget(config, data_set), data_set)
    if not (most := config.records).epsilon:
        return found
    return replace(found, bounded=f"and [records] in silo.toml allows epsilon {most.epsilon:g} at delta {most.delta:g}")


def account(ledger: Ledger, silo: SiloName, study: str, budget: Budget, data_set: str = DATA_SET) -> Spending:
    """A study's account in a ledger, or an unspent ``budget``. Raises LedgerError."""
    known: dict[str, Any] = {"whom": silo, "unit": budget.unit, "budget": budget.epsilon, "delta": budget.delta}
    if not ledger.used:
        return Spending(**known)
    with ledger:
        found = ledger.spent(study, data_set)
        asked = ledger.spent(study, data_set, budget.delta)
        together = ledger.spent_on(data_set, found.budget.delta if found else budget.delta)
    known |= {"others": len(together.studies - {study}), "together": together.epsilon.upper}
    if found and asked:
        known["asked"] = asked.epsilon.upper
        spent, known_as = found.epsilon, found.budget
        known |= {"unit": known_as.unit, "delta": known_as.delta, "budget": known_as.epsilon, "charges": found.charges}
        known |= {"epsilon": spent.upper, "accountant": spent.accountant}
        known["draws"] = tuple(in_words(from_json(event), times) for event, times in found.events.items())
    return Spending(**known)


def approve_budget(config: "SiloConfig", study: str, terms: bytes, data_set: str = DATA_SET) -> None:
    """Put the budget of ``silo.toml`` in force, higher or lower, on the approval of these terms. Raises LedgerError."""
    with Ledger(config.state) as ledger:
        ledger.approve(study, data_set, own_budget(config, data_set), terms.hex())


@dataclass(frozen=True)
class Purse:
    """A silo's means of payment: its ledger, its budget, and the source of a question's noise.

    ``real``: whether the records are people's. Then whether there is a reply depends on no record, and the noise must
    be unpredictable: raises ConfigError where it is not.
    """

    ledger: Ledger
    budget: Budget
    noise: Callable[[bytes], "Noise"]
    real: bool = False

    def __post_init__(self) -> None:
        if self.real and not self.noise(bytes(32)).secure:
            raise ConfigError(
                "this noise can be predicted, so it protects no one: at a silo with real records only the operating "
                "system's random numbers will do"
            )


@dataclass(frozen=True, eq=False)
class Release:
    """A silo's labeler with its ledger and all that it keeps, for one study.

    ``settings`` (32 bytes) stands for all that makes the labeler another one: then it starts over, and the ledger says
    whether the budget covers that.

    Formal guarantees:
        All labels that ``answer`` ever returned for a study together are (epsilon, delta)-differentially private per
        record of the silo (or patient, by the budget's unit), added or removed, with the budget in the ledger, if the
        labeler keeps what ``Labeler`` promises. Each event is charged before its noise is drawn, and each charge pays
        for at most one draw that anything later depends on. The number of records, the study's schema, the public set
        and the consensus count as public. Whether there is an answer depends on public things and on what was charged.
        Its time is not covered.
    """

    labeler: "Labeler"
    purse: Purse
    state: "LocalState"
    study: str
    settings: bytes

    def answer(self, instruction: bytes, asked: "Asked") -> Votes:
        """Labels ``(positions,)`` or votes ``(positions, classes)`` that may leave. Raises Refused or TrainingError."""
        question = hashlib.sha256(b"fedct question 1" + self.settings + instruction).digest()
        with ledger_refusals(), self.purse.ledger:
            return _to_votes(self._answer(question, asked), len(asked.positions))

    def _answer(self, question: bytes, asked: "Asked") -> bytes:
        self._take_up()
        if (known := self.purse.ledger.answered(self.study, DATA_SET, question)) is not None:
            return known
        event = self.labeler.event(asked)
        if event == NoOpDpEvent():
            # Nothing is drawn, so nothing is new to keep: the last draw stays on record, to be charged again should
            # the ledger be lost.
            return self._labels(question, asked)
        text = to_json(event).encode()
        return self._paid(event, question, lambda: self._draw(text, question, asked))

    def _paid(self, event: DpEvent, question: bytes, draw: Callable[[], bytes]) -> bytes:
        return self.purse.ledger.answer(self.study, DATA_SET, self.purse.budget, event, question, draw)

    def _draw(self, event: bytes, question: bytes, asked: "Asked") -> bytes:
        """New labels, kept with how far the labeler then has come, in one write."""
        drawn = self._labels(question, asked)
        self.state.put(self._name, _Kept(question, event, drawn, self.labeler.dump()).to_bytes())
        return drawn

    def _labels(self, question: bytes, asked: "Asked") -> bytes:
        votes = self.labeler.answer(asked, self.purse.noise(question))
        if len(votes) != len(asked.positions) or votes.min(initial=0) < 0:
            raise TrainingError("the labeler did not label what it was asked about")
        return votes.astype(_LABELS).tobytes()

    def _take_up(self) -> None:
        """Put the labeler where it stood after its last draw, and see that the ledger has what was drawn.

        So too for what was drawn under other settings. After this, no charge without an answer was drawn for.
        """
        prefix = f"{STATE}{self.study}-"
        for name in self.state.names(prefix):
            # Names of other studies that begin alike are longer.
            if len(name) == len(self._name) and name != self._name:
                self._store(_Kept.read(self.state.get(name)))
        kept = _Kept.read(self.state.get(self._name))
        if kept is None:
            self.labeler.reset()
            return
        self._store(kept)
        # Trained teachers and other state in memory need not be made again.
        if self.labeler.dump() != kept.dump:
            self.labeler.restore(kept.dump)

    def _store(self, kept: "_Kept | None") -> None:
        """See that the ledger has the answer that was drawn last."""
        if kept is not None:
            self._paid(from_json(kept.event.decode()), kept.question, lambda: kept.labels)

    @property
    def _name(self) -> str:
        """Name under which a labeler with these settings is kept."""
        return f"{STATE}{self.study}-{self.settings.hex()[:16]}"


class _Kept(NamedTuple):
    """The last draw: for which question, what it was charged for, its labels, the labeler after it."""

    question: bytes
    event: bytes
    labels: bytes
    dump: bytes

    @classmethod
    def read(cls, kept: bytes | None) -> Self | None:
        if kept is None:
            return None
        question, event, labels = _HEADER.unpack_from(kept)
        parts = _HEADER.size, _HEADER.size + event, _HEADER.size + event + labels
        return cls(question, kept[parts[0] : parts[1]], kept[parts[1] : parts[2]], kept[parts[2] :])

    def to_bytes(self) -> bytes:
        return _HEADER.pack(self.question, len(self.event), len(self.labels)) + self.event + self.labels + self.dump


class Answering(NamedTuple):
    """A labeler that answers instead of the personal model, and the settings that make it another one."""

    labeler: "Labeler"
    decisive: Mapping[str, object]


def by_students(site: "Site", votes: int) -> Answering:
    """The silo's students, ``votes`` on each example. Raises ConfigError or DataError."""
    transfer = site.transfer.model_dump(mode="json")
    return Answering(site.students(votes), {"transfer": transfer, "votes": votes})


def settings_digest(site: "Site", labels: Mapping[str, object], of_labeler: Mapping[str, object]) -> bytes:
    """SHA-256 (32 bytes) over what decides what a labeler is; ``labels``: what the labels of its records mean."""
    columns = [
        {key: value for key, value in asdict(each).items() if key != "held" and (key != "text" or value)}
        for each in site.schema.columns
    ]
    decisive = {
        "labeler": labelers.decides_labeler(site.privacy, site.settings),
        "labels": dict(labels),
        "public": site.public.fingerprint.hex(),
        "schema": {"classes": site.schema.classes, "columns": columns},
        **of_labeler,
    }
    return hashlib.sha256(b"fedct labeler " + json.dumps(decisive, sort_keys=True).encode()).digest()


def _to_votes(drawn: bytes, num_examples: int) -> Votes:
    """One number for each example is its label, several are counts of votes."""
    rows = np.frombuffer(drawn, dtype=_LABELS).reshape(num_examples, -1)
    return rows[:, 0].astype(np.int16) if rows.shape[1] == 1 else rows.astype(np.int32)


@contextmanager
def ledger_refusals() -> Iterator[None]:
    """Raise Refused (PRIVACY_BUDGET, LEDGER) for what the ledger refuses, after its sentence is in the silo's log."""
    try:
        yield
    except BudgetExceeded as error:
        logger.error("%s", error)
        raise Refused(Refusal.PRIVACY_BUDGET) from error
    except LedgerError as error:
        logger.error("%s", error)
        raise Refused(Refusal.LEDGER) from error
