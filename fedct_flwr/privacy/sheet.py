"""The privacy sheet: one page of plain language on what is promised, what was spent, and what is not covered.

The template ``sheet.md`` has a part for each kind of promise: a silo's for its ``records``, all silos' for the
``joint`` labeler, the ``coordinator``'s noise, silos' noise in ``shares``, and a real silo's part of ``sums``.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Context
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Self

from fedct_flwr.config.privacy import OF_STUDENTS, PrivacySettings
from fedct_flwr.privacy.budget import PrivacyUnit, Spending
from fedct_flwr.text.markdown import template

if TYPE_CHECKING:
    from fedct_flwr.config.silo import SiloConfig


@dataclass(frozen=True)
class PermittedQuestions:
    """Permitted questions to a silo: ``labels``, votes of up to ``students`` students, ``probabilities``, or all."""

    labels: bool = True
    students: int = 0
    lessons: int = 0
    """Public examples that students learn from under noise; 0: those that they are asked about."""
    probabilities: bool = False
    values: bool = False
    """Whether values of a quantity leave instead of probabilities."""
    summed: bool = False
    """Whether only sums over silos can be read, not each silo's labels or votes."""

    @classmethod
    def of(cls, config: "SiloConfig") -> "PermittedQuestions":
        """Questions that a real silo's policy permits. Votes leave without a protection, or under teachers' noise."""
        counted = config.privacy.protection in ("none", OF_STUDENTS) and config.policy.teaches
        students = config.transfer.most_students(noisy=config.privacy.enabled) if counted else 0
        # No protection covers these, so settings that let them out under one are refused.
        kinds = set(config.policy.kinds)
        probabilities = "soft" in kinds
        labels = bool(kinds & {"hard", "shares", "sum"}) or not (students or probabilities)
        summed = kinds <= set(config.policy.adds)
        return cls(labels, students, config.transfer.lessons, probabilities, summed=summed)

    def words(self, privacy: PrivacySettings) -> str:
        """Data that leave under this protection, in words."""
        parts = [privacy.chosen.leaves] if self.labels else []
        sums = "; only sums of them over all silos can be read" if self.summed else ""
        return "; or, where votes are asked for, ".join([*parts, *self._votes()]) + sums

    def bare(self) -> str:
        """Data that leave without any noise, in words."""
        if self.summed:
            return "parts of sums over all silos, from which a single silo's part cannot be read"
        parts = ["the labels of the models themselves"] if self.labels else []
        students = ["the votes of students, which learned from the labels of models trained on the records"]
        sure = ["the probabilities of classes that the models themselves give"]
        sure = ["the values that the models themselves predict"] if self.values else sure
        return " and ".join(parts + (students if self.students else []) + (sure if self.probabilities else []))

    def planned(self, privacy: PrivacySettings, num_public: int) -> str:
        """How many answers noise is measured for. Students are asked once, about the public set at most."""
        queries = privacy.planned_queries(num_public)
        rounds = "one round" if privacy.rounds == 1 else f"{privacy.rounds:,} rounds"
        labels = [f"{rounds} and {queries:,} labels"] if self.labels else []
        taught = f"teachers' labels for {min(self.lessons, num_public):,} public examples, however many votes leave"
        votes = [taught if self.lessons else f"votes on {min(queries, num_public):,} public examples"]
        return ", or ".join(labels + votes if self.students else labels)

    def _votes(self) -> list[str]:
        if not self.students:
            return []
        seen = (
            "each record was seen by one of its teachers alone"
            if self.students == 1
            else f"each record was seen by one teacher of each student, {self.students} at most, and all of "
            "them are charged"
        )
        what = (
            "the class that the silo's student chose, as a vote"
            if self.students == 1
            else f"how many of the silo's students, {self.students} at most, chose each class"
        )
        lesson = f"of {self.lessons:,} public examples" if self.lessons else "public example"
        return [
            f"for each public example {what}; a student saw no record: it learned for each {lesson} the class that "
            f"most of its teachers voted for, with noise on these votes; {seen}"
        ]


UNITS: Final = {
    PrivacyUnit.EXAMPLE: "one record of a silo, added or removed; a person with several records is protected less",
    PrivacyUnit.PATIENT: "one patient of a silo, added or removed with all records: those with one value in the group "
    "column",
}
"""Whom a silo's promise protects, in words."""
_LABELS: Final = PermittedQuestions()
_UP: Final = Context(prec=4, rounding=ROUND_CEILING)


def together_words(account: Spending) -> str:
    """Total cost of all studies; empty if there is no other study."""
    if not account.others:
        return ""
    others = "another study has" if account.others == 1 else f"{account.others:,} other studies have"
    cost = f"epsilon {account.together:.3g} at delta {account.delta:g}"
    return f"On the same records {others} spent too: all together {cost}, {account.bounded}"


@dataclass(frozen=True)
class Together:
    """How silos add together: ``steps`` sums of ``numbers`` numbers each, with the noise of ``honest`` silos counted.

    ``noise``: standard deviation of the counted noise in one sum, for a record's largest change of 1. All sums together
    cost a record ``epsilon`` at ``delta``. ``counts``: they count values for a drawn public set ("draw"), or patients
    ("count"), and ``numbers`` is the least of any sum; empty: they train. ``records``: of all silos together, as the
    study says; 0 where it does not.
    """

    steps: int
    numbers: int
    honest: int
    noise: float
    epsilon: float
    delta: float
    min_summands: int
    may_collude: int
    counts: str = ""
    records: int = 0


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """Contents of one page about a study: ``kind`` names the template's part, ``protection`` what keeps the promise.

    ``metrics``: whether test scores left with the labels. ``cost``: that of noise on votes. ``facts``: what the
    template's part for this kind asks for.
    """

    kind: str
    study: str
    protection: str
    accounts: Sequence[Spending] = ()
    simulated: bool = False
    metrics: bool = False
    cost: Spending | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of_labels(
        cls, study: str, privacy: PrivacySettings, num_public: int, answers: PermittedQuestions = _LABELS, **more: Any
    ) -> Self:
        """The sheet of silos that share labels, with a guarantee for their records or without one.

        ``answers`` are the questions that a silo permits.
        """
        kind = "records" if privacy.enabled else "nothing"
        facts = {"privacy": privacy, "answers": answers, "num_public": num_public, **more.pop("facts", {})}
        return cls(kind=kind, study=study, protection=privacy.protection, facts=facts, **more)

    @property
    def markdown(self) -> str:
        """The page, as Markdown."""
        return str(self._page).lstrip("\n")

    @property
    def promised(self) -> list[str]:
        """The promise alone, in sentences for the person who approves it."""
        return [re.sub(r"^- |\*\*|`|\.$", "", line) for line in self._page.promised().splitlines() if line]

    @cached_property
    def _page(self) -> Any:
        unit = self.accounts[0].unit if self.accounts else PrivacyUnit.EXAMPLE
        values: dict[str, Any] = {
            "unprotected": 0,
            "drawn": None,
            "together": None,
            "questions": 0,
            "scores_cost": None,
            "attacks": (),
            "over_studies": "",
        }
        if self.cost:
            # Four digits, rounded up: less than it is would promise too much.
            values |= {"noise": self.cost.noise, "accountant": self.cost.accountant, "delta": self.cost.delta}
            values["epsilon"] = float(_UP.create_decimal(self.cost.epsilon))
        for each in ("kind", "study", "accounts", "simulated", "metrics"):
            values[each] = getattr(self, each)
        values |= {"unit": str(unit), "whom": UNITS.get(unit, ""), "factor": _factor, "together_words": together_words}
        return template(__package__, "sheet.md").make_module(values | {**self.facts})


def _factor(epsilon: float) -> str:
    """E to the epsilon, as people say it."""
    # Beyond that it is no promise that anybody can make something of.
    return f"{2.718281828459045**epsilon:.3g}" if epsilon <= 20 else "more than a hundred million"
