"""The privacy sheet: one page of plain language on what is promised, what was spent, and what is not covered.

The template ``sheet.md`` has a part for each kind of promise: a silo's for its ``records``, all silos' for the
``joint`` labeler, the ``coordinator``'s noise, silos' noise in ``shares``, and a real silo's part of ``sums``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context
from typing import TYPE_CHECKING, Any, Final

from fedct_flwr.config.privacy import OF_STUDENTS, PrivacySettings
from fedct_flwr.privacy.budget import PrivacyUnit, Spending
from fedct_flwr.text.markdown import template
from fedct_flwr.text.printable import count

if TYPE_CHECKING:
    from fedct_flwr.config.silo import SiloConfig
    from fedct_flwr.config.study import StudyDraw, StudyJoint


@dataclass(frozen=True)
class Answers:
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
    def of(cls, config: "SiloConfig") -> "Answers":
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
_LABELS: Final = Answers()
_UP: Final = Context(prec=4, rounding=ROUND_CEILING)


def promise(
    privacy: PrivacySettings, num_public: int, answers: Answers = _LABELS, unit: PrivacyUnit = PrivacyUnit.EXAMPLE
) -> list[str]:
    """The guarantee, in sentences for the person who approves it."""
    return [
        f"What leaves: {answers.words(privacy)}",
        f"Unit: {UNITS[unit]}. Epsilon {privacy.epsilon:g}, delta {privacy.delta:g}, in total over the whole study",
        f"Planned for {answers.planned(privacy, num_public)}, all runs together; what the budget does not cover is "
        "refused",
    ]


def spent_words(account: Spending) -> str:
    """Spent and remaining budget by the ledger, in words."""
    if not account.charges:
        return f"Spent so far: nothing of epsilon {account.budget:g}"
    return f"Spent so far: epsilon {account.epsilon:.3g} of {account.budget:g}, {account.left:.3g} left"


def together_words(account: Spending) -> list[str]:
    """Total cost of all studies, in a sentence; empty if there is no other study."""
    if not account.others:
        return []
    others = "another study has" if account.others == 1 else f"{account.others:,} other studies have"
    cost = f"epsilon {account.together:.3g} at delta {account.delta:g}"
    return [f"On the same records {others} spent too: all together {cost}, which no budget bounds"]


@dataclass(frozen=True)
class Together:
    """How silos add together: ``steps`` sums of ``numbers`` numbers each, with the noise of ``honest`` silos counted.

    ``noise``: standard deviation of the counted noise in one sum, for a record's largest change of 1. All sums together
    cost a record ``epsilon`` at ``delta``. ``draws``: they count values for a drawn public set, and ``numbers`` is the
    most of any sum; else they train.
    """

    steps: int
    numbers: int
    honest: int
    noise: float
    epsilon: float
    delta: float
    min_summands: int
    may_collude: int
    draws: bool = False


def promise_together(
    together: Together,
    agreed: "StudyJoint | StudyDraw",
    privacy: PrivacySettings,
    unit: PrivacyUnit = PrivacyUnit.EXAMPLE,
) -> list[str]:
    """The guarantee, in sentences for the person who approves it."""
    once, sums = ("drawn set", "counts") if together.draws else ("training", "steps")
    return [
        f"Parts of {count(together.steps, 'sum')} of {together.numbers:,} numbers{' at most' * together.draws} leave, "
        f"which look random. The coordinator can open only a sum of at least {together.min_summands} silos, with the "
        "silos' noise in it",
        f"Unit: {UNITS[unit]}. One {once} costs it epsilon {agreed.epsilon:g}, delta {agreed.delta:g}, all {sums} "
        "together",
        f"All runs of the study together may cost epsilon {privacy.epsilon:g}, delta {privacy.delta:g}, as [privacy] "
        "says. The silo's ledger is charged before a number is sent, and beyond that it sends none",
        f"It holds against everybody, the coordinator too, if at most {together.may_collude} of the silos collude. The "
        f"noise of {together.honest} honest silos is counted in each sum",
        f"The study says that all silos have about {agreed.records:,} records. How many this silo has does not leave",
    ]


def page(
    kind: str,
    study: str,
    accounts: Sequence[Spending] = (),
    *,
    simulated: bool,
    metrics: bool,
    cost: Spending | None = None,
    **values: object,
) -> str:
    """The page of one kind, as Markdown.

    ``metrics``: whether test scores left with the labels. ``cost`` is that of noise on votes. ``values`` are what the
    template's part for this kind asks for.
    """
    if cost:
        # Four digits, rounded up: less than it is would promise too much.
        values |= {"noise": cost.noise, "accountant": cost.accountant, "delta": cost.delta}
        values["epsilon"] = float(_UP.create_decimal(cost.epsilon))
    unit = accounts[0].unit if accounts else PrivacyUnit.EXAMPLE
    facts = {"kind": kind, "study": study, "accounts": accounts, "simulated": simulated, "metrics": metrics}
    values |= {"unit": str(unit), "whom": UNITS.get(unit, "")}
    return template(__package__, "sheet.md").render(factor=_factor, **facts, **values).lstrip("\n")


def more_of_run(drawn: Mapping[str, Any] | None, attacks: Sequence[Mapping[str, Any]]) -> str:
    """Further sections of a run's sheet, as Markdown: a drawn public set's cost, and an audit's results."""
    return template(__package__, "more.md").render(drawn=drawn, attacks=attacks)


def sheet(
    study: str,
    privacy: PrivacySettings,
    num_public: int,
    accounts: Sequence[Spending],
    *,
    simulated: bool,
    metrics: bool,
    unprotected: int = 0,
    answers: Answers = _LABELS,
) -> str:
    """The page of silos that protect their records, or promise nothing, as Markdown.

    ``metrics``: whether test scores left with the labels. ``unprotected``: labels that left under approvals without a
    protection, by the silo's own log. ``answers``: what silos are asked for.
    """
    kind = "records" if privacy.enabled else "nothing"
    facts: dict[str, Any] = {"privacy": privacy, "answers": answers}
    facts |= {"num_public": num_public, "unprotected": unprotected}
    return page(kind, study, accounts, simulated=simulated, metrics=metrics, **facts)


def _factor(epsilon: float) -> str:
    """E to the epsilon, as people say it."""
    # Beyond that it is no promise that anybody can make something of.
    return f"{2.718281828459045**epsilon:.3g}" if epsilon <= 20 else "more than a hundred million"
