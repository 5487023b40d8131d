"""A silo's judgment of the consensus by its own records: whether it helps, and which chances to trust.

None of it ever leaves.
"""

import base64
import contextlib
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import numpy as np

from fedct_flwr.datasets.inspection.labels_fit import ConsensusFit
from fedct_flwr.files import UNREADABLE, write_atomically
from fedct_flwr.learners import Choosing, Grading, Learner, Probabilistic, Resumable
from fedct_flwr.learners.out_of_fold import Evidence, one_thread
from fedct_flwr.learners.safeguard import Decision, Safeguard, SoftSafeguard, Trust
from fedct_flwr.scoring.assessment import FEWEST, RANKS, Recalibration
from fedct_flwr.scoring.intervals import Verdict, verdict
from fedct_flwr.silo.context import Question
from fedct_flwr.silo.site import SITES_KEPT, LocalState, Site
from fedct_flwr.text.printable import logger
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, DataError, Examples, HardLabels, TrainingError

if TYPE_CHECKING:
    from fedct_flwr.wire.kinds import Kind

STORED: Final = np.dtype("<i2")
KEPT_OWN: Final = "your own records do not support the consensus: kept your own model"
FOREIGN_ONLY: Final = (
    "your own records do not support the consensus: it counts only for public examples that are unlike them"
)
_TRAINS_ON: Final = "a network trains on, so no own record is left that it has not seen"
_IN_FULL: Final = "its pseudo-weight is a number, and 'auto' would have tested it on own records"
_ALONE: Final = "it has learned no consensus yet"
_UNTESTED: Final = f"fewer than {FEWEST} own records of a class could be asked about"


@dataclass(frozen=True)
class Judgment:
    """A silo's judgment after the question of ``round``.

    ``learner`` is what it chose, empty where one was named. ``weight`` is what pseudo-labels count (0: the silo keeps
    its own model), None where they were not weighed; ``gain``, ``error`` and ``records`` are the evidence out of fold.
    ``foreign_only``: pseudo-labels count of public examples alone that are unlike own records.
    ``tests`` are verdicts on the silo's own test records by round: the first that learned a consensus, and the last.
    ``weighed_in`` is the round of the last decision.
    """

    round: int
    learner: str = ""
    weight: float | None = None
    gain: float | None = None
    error: float | None = None
    records: int = 0
    tests: Mapping[str, Verdict] = field(default_factory=dict)
    foreign_only: bool = False
    weighed_in: int | None = None
    labels_fit: ConsensusFit | None = None
    """At a real silo, how the first consensus fits its labels."""
    recalibration: Recalibration | None = None
    """How the kept model's probabilities become chances; ``ranks`` says why they cannot, where it knows some."""
    ranks: str = ""

    @property
    def chances(self) -> str:
        """The kind of the kept model's probabilities; empty where no model is kept, or it knows none."""
        if self.recalibration:
            return f"{self.recalibration.words} of your own"
        return f"{RANKS}: {self.ranks}" if self.ranks else ""

    @property
    def keeps_own(self) -> bool:
        """Whether the silo uses its own model."""
        return self.weight == 0

    @property
    def words(self) -> str:
        """How far own records support the consensus, and how much it counts; empty where it was never weighed."""
        if self.weight is None:
            return ""
        if self.weight == 0:
            return KEPT_OWN
        if self.foreign_only:
            return FOREIGN_ONLY
        if self.gain is None or self.error is None:
            return "your records cannot tell for or against the consensus: it is trusted"
        if self.weight < 1:
            return f"your own records speak against the full weight of the consensus: it counts {self.weight:g} of that"
        if self.gain > self.error:
            return "your own records support the consensus"
        return "your own records do not speak against the consensus: it is trusted"

    @property
    def says_something(self) -> bool:
        """Whether there is anything beyond the round."""
        return bool(self.learner or self.weight is not None or self.tests or self.labels_fit or self.chances)

    @property
    def last_test(self) -> Verdict | None:
        """The verdict on the silo's own test records, where it has some."""
        return self.tests[max(self.tests, key=int)] if self.tests else None

    def write(self, path: Path) -> None:
        """Write it. Raises OSError."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(asdict(self)).encode())

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """Read the file of ``write``; None where there is none. Raises DataError for a damaged file."""
        try:
            raw = json.loads(path.read_text("utf-8"))
            tests = {str(int(number)): Verdict(**found) for number, found in raw.pop("tests").items()}
            fit, how = raw.pop("labels_fit"), raw.pop("recalibration", None)
            known = Recalibration(how["slope"], tuple(how["intercepts"]), how["records"]) if how else None
            return cls(**raw, tests=tests, labels_fit=ConsensusFit(*fit) if fit else None, recalibration=known)
        except FileNotFoundError:
            return None
        except UNREADABLE:
            raise DataError(f"{path} is damaged: remove it, and the next round writes it again") from None


class Judge:
    """Judge of one silo, which keeps its own model's answers on the test records in ``state`` under ``name``.

    Networks are not tested: one trained on own records alone would cost as much again. ``real``: whether the records
    are people's; of simulated silos Table 1 says how labels fit. ``keeps``: whether the model is kept.
    """

    def __init__(self, site: Site, state: LocalState, name: str, *, real: bool, keeps: bool) -> None:
        self._site, self._state, self._name, self._real, self._keeps = site, state, f"alone-{name}", real, keeps

    def before(self, question: Question) -> None:
        """See that the silo's own model is known, before its learner learns a question."""
        if self._can_test and question.teaches and self._alone() is None:
            with contextlib.suppress(TrainingError):
                self._keep(self._site.learner.fit(*self._site.private))

    def after(self, question: Question, before: Judgment | None) -> Judgment:
        """The judgment after learning a question."""
        site, learned, round_ = self._site, question.teaches, question.instruction.round
        if self._can_test and not learned:
            self._keep(site.learner)
        # The first of this run: an earlier run has started over.
        tests = dict(list(before.tests.items())[:1]) if before and before.round < round_ else {}
        if learned and (alone := self._alone()) is not None:
            found = verdict(alone, site.learner.predict(site.own_test.X), site.own_test.y)
            tests |= {str(round_): found} if found else {}
        fit = before.labels_fit if before and before.round < round_ else None
        if self._real and learned and fit is None:
            fit = self._labels_fit(question.instruction.targets)
        choice = site.learner.choice if isinstance(site.learner, Choosing) else None
        safeguard = safeguard_of(question.kind, site)
        trust = safeguard.last if safeguard and learned else None
        evidence = trust.evidence if trust else None
        return Judgment(
            round_,
            choice.words if choice else "",
            trust.weight if trust else None,
            evidence.gain if evidence else None,
            evidence.error if evidence else None,
            evidence.records if evidence else 0,
            tests,
            bool(trust and trust.foreign),
            safeguard.decision.round if trust and isinstance(safeguard, Safeguard) and safeguard.decision else None,
            fit,
            *self._recalibrated(question, safeguard),
        )

    def _recalibrated(
        self, question: Question, safeguard: Safeguard | SoftSafeguard | None
    ) -> tuple[Recalibration | None, str]:
        """How its probabilities become chances by own records, out of fold; or why not."""
        site, learner = self._site, self._site.learner
        classes = 0 if site.schema.outcome.number else len(site.schema.classes)
        seen, why, targets = None, _UNTESTED, question.instruction.targets
        # A model that cannot be asked is kept as it is.
        with contextlib.suppress(TrainingError), one_thread("blas"):
            if site.schema.outcome.number or not (self._keeps and classes and isinstance(learner, Probabilistic)):
                return None, ""
            if isinstance(learner, Resumable) or not question.teaches:
                why = _TRAINS_ON if isinstance(learner, Resumable) else _ALONE
            elif isinstance(safeguard, SoftSafeguard):
                seen = safeguard.seen
            elif safeguard is None and not self._real:
                why = _IN_FULL  # in a simulation of many rounds these fits would take a fifth of its time
            elif question.kind.learns_labels:
                if safeguard is None:
                    safeguard = Safeguard(site.private, classes, site.settings.seed, site.silo, site.groups)
                    safeguard.decision = Decision(Trust(site.settings.full_weight), targets)
                seen = safeguard.out_of_fold(learner, site.public.X, targets)
            # Where all are 0 and 1 the model may know no probabilities.
            if seen and not (seen[1] % 1).any() and learner.probabilities(site.private.X[:1], classes) is None:
                return None, ""
            found = _learned(seen[0].astype(STORED).tobytes(), seen[1].tobytes()) if seen else None
            return found, "" if found else why
        return None, _UNTESTED

    def _labels_fit(self, targets: HardLabels) -> ConsensusFit | None:
        site, labeled = self._site, targets != ABSTAIN
        columns, classes = site.schema.columns, site.schema.classes
        if not columns or site.schema.outcome.number:
            return None
        fit = ConsensusFit.of(Examples(site.public.X[labeled], targets[labeled]), site.private, columns, len(classes))
        if fit and fit.words:
            logger.warning("Silo %s: %s", site.silo, fit.words)
        return fit

    @property
    def _can_test(self) -> bool:
        site = self._site
        return bool(site.own_test.size) and not site.schema.outcome.number and not isinstance(site.learner, Resumable)

    def _keep(self, learner: Learner) -> None:
        self._state.put(self._name, learner.predict(self._site.own_test.X).astype(STORED).tobytes())

    def _alone(self) -> HardLabels | None:
        kept = self._state.get(self._name)
        found = np.frombuffer(kept, dtype=STORED) if kept else np.zeros(0, dtype=STORED)
        return found.astype(LABEL_DTYPE) if len(found) == self._site.own_test.size > 0 else None


@lru_cache(maxsize=SITES_KEPT)
def _learned(y: bytes, p: bytes) -> Recalibration | None:
    """As ``Recalibration.learned``: while a decision holds, nothing has changed."""
    labels = np.frombuffer(y, dtype=STORED)
    return Recalibration.learned(labels, np.frombuffer(p).reshape(len(labels), -1))


def facts_of(judgment: Judgment) -> dict[str, Any]:
    """The judgment as JSON types."""
    test = judgment.last_test
    return {
        "round": judgment.round,
        "learner": judgment.learner or None,
        "weight": judgment.weight,
        "foreign_only": judgment.foreign_only,
        "weighed_in": judgment.weighed_in,
        "model": None if judgment.weight is None else "own" if judgment.keeps_own else "co-trained",
        "why": judgment.words or None,
        "labels_fit": judgment.labels_fit._asdict() if judgment.labels_fit else None,
        "chances": judgment.chances or None,
        "own_test": {**asdict(test), "verdict": test.word or "no difference beyond chance"} if test else None,
    }


def safeguard_of(kind: "Kind", site: Site) -> Any:
    """Safeguard that decides the weight of the targets; None where it is set, or where targets have no weight."""
    if isinstance(site.learner, Grading):
        return site.learner
    return site.soft_safeguard if kind.for_numbers or kind.by_name else site.safeguard


class DecisionKey(NamedTuple):
    """Subject of a decision: one of Flower's runs, the settings of the model, the public set, the silo's records."""

    run_id: int
    model_digest: bytes
    public_fingerprint: bytes
    private: Examples

    def facts(self) -> dict[str, Any]:
        """The subject in the file; records are a digest of their classes, which changes when some are added or gone."""
        records = hashlib.sha256(self.private.y.tobytes()).hexdigest()
        public = self.public_fingerprint.hex()
        return {"run": self.run_id, "model": self.model_digest.hex(), "public": public, "records": records}


def write_decision(path: Path, subject: DecisionKey, decision: Decision) -> None:
    """Write a decision. Raises OSError."""
    trust = decision.trust
    labels = base64.b64encode(decision.targets.astype(STORED).tobytes()).decode()
    decided = {
        "weight": trust.weight,
        "evidence": trust.evidence,
        "foreign": trust.foreign,
        "round": decision.round,
        "labels": labels,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps({**subject.facts(), **decided}).encode())


def read_decision(path: Path, subject: DecisionKey, round_: int, *, resumed: bool) -> Decision | None:
    """The decision in the file, if it is on this subject and not from a later round, else None.

    In a ``resumed`` run the run's number may differ, as Flower gives it another one. A damaged file counts as none.
    """
    try:
        raw = json.loads(path.read_text("utf-8"))
        wanted = subject.facts()
        if resumed:
            wanted["run"] = raw["run"]
        if raw["round"] > round_ or any(raw[name] != value for name, value in wanted.items()):
            return None
        evidence = Evidence(*raw["evidence"]) if raw["evidence"] else None
        targets = np.frombuffer(base64.b64decode(raw["labels"]), dtype=STORED).astype(LABEL_DTYPE)
        return Decision(Trust(raw["weight"], evidence, raw["foreign"]), targets, raw["round"])
    except UNREADABLE:
        return None
