"""What a silo makes of the consensus, by its own records: for itself alone, nothing of it ever leaves."""

import contextlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Self

import numpy as np

from fedct_flwr.files.atomic import write_atomically
from fedct_flwr.files.json_file import UNREADABLE
from fedct_flwr.kinds import kind_of
from fedct_flwr.learners.automatic import OwnChoice
from fedct_flwr.learners.base import Learner, Resumable
from fedct_flwr.learners.guard import Guard
from fedct_flwr.silo.site import Site
from fedct_flwr.silo.state import LocalState
from fedct_flwr.types import LABEL_DTYPE, DataError, HardLabels, TrainingError
from fedct_flwr.verdict import Verdict, verdict
from fedct_flwr.wire.content import Instruction

_STORED: Final = np.dtype("<i2")
KEPT_OWN: Final = "your own records do not support the consensus: kept your own model"
FOREIGN_ONLY: Final = (
    "your own records do not support the consensus: it counts only for public examples that are unlike them"
)


@dataclass(frozen=True)
class Judgment:
    """How a silo stands after the question of ``round``.

    ``learner`` is what it chose, empty where one was named. ``weight`` is what pseudo-labels count (0: the silo keeps
    its own model), None where they were not weighed; ``gain``, ``error`` and ``records`` are the evidence out of fold.
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

    @property
    def keeps_own(self) -> bool:
        """Whether the silo uses its own model."""
        return self.weight == 0

    @property
    def words(self) -> str:
        """Which model the silo uses and why; empty where nothing was weighed."""
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
        return bool(self.learner or self.weight is not None or self.tests)

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
        """What ``write`` wrote; None where there is none. Raises DataError for a damaged file."""
        try:
            raw = json.loads(path.read_text("utf-8"))
            tests = {str(int(number)): Verdict(**found) for number, found in raw.pop("tests").items()}
            return cls(**raw, tests=tests)
        except FileNotFoundError:
            return None
        except UNREADABLE:
            raise DataError(f"{path} is damaged: take it away, and the next round writes it anew") from None


class Judge:
    """Of one silo, whose own model's answers on the test records it keeps in ``state`` under ``name``.

    Networks are not tested: one trained on own records alone would cost as much again.
    """

    def __init__(self, site: Site, state: LocalState, name: str) -> None:
        self._site, self._state, self._name = site, state, f"alone-{name}"

    def before(self, question: Instruction) -> None:
        """See that the silo's own model is known, before its learner learns a question."""
        if self._can_test and self._teaches(question) and self._alone() is None:
            with contextlib.suppress(TrainingError):
                self._keep(self._site.learner.fit(*self._site.private))

    def after(self, question: Instruction, before: Judgment | None) -> Judgment:
        """What there is to say once it has learned a question."""
        site, learned, round_ = self._site, self._teaches(question), question.round
        if self._can_test and not learned:
            self._keep(site.learner)
        # The first of this run: an earlier run has begun anew.
        tests = dict(list(before.tests.items())[:1]) if before and before.round < round_ else {}
        if learned and (alone := self._alone()) is not None:
            found = verdict(alone, site.learner.predict(site.own_test.X), site.own_test.y)
            tests |= {str(round_): found} if found else {}
        choice = site.learner.choice if isinstance(site.learner, OwnChoice) else None
        guard = kind_of(question, site.terms).guard_of(site)
        trust = guard.last if guard and learned else None
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
            guard.decision.round if trust and isinstance(guard, Guard) and guard.decision else None,
        )

    @property
    def _can_test(self) -> bool:
        site = self._site
        return bool(site.own_test.size) and not site.schema.outcome.number and not isinstance(site.learner, Resumable)

    def _teaches(self, question: Instruction) -> bool:
        return kind_of(question, self._site.terms).teaches(question)

    def _keep(self, learner: Learner) -> None:
        self._state.put(self._name, learner.predict(self._site.own_test.X).astype(_STORED).tobytes())

    def _alone(self) -> HardLabels | None:
        kept = self._state.get(self._name)
        found = np.frombuffer(kept, dtype=_STORED) if kept else np.zeros(0, dtype=_STORED)
        return found.astype(LABEL_DTYPE) if len(found) == self._site.own_test.size > 0 else None


def facts_of(judgment: Judgment) -> dict[str, Any]:
    """As programs read it."""
    test = judgment.last_test
    return {
        "round": judgment.round,
        "learner": judgment.learner or None,
        "weight": judgment.weight,
        "foreign_only": judgment.foreign_only,
        "weighed_in": judgment.weighed_in,
        "model": None if judgment.weight is None else "own" if judgment.keeps_own else "co-trained",
        "why": judgment.words or None,
        "own_test": {**asdict(test), "verdict": test.word or "no difference beyond chance"} if test else None,
    }
