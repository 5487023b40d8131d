"""The privacy sheet: one page of plain language on what is promised, what was spent, and what is not covered."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fedct_flwr.config import PrivacySettings
from fedct_flwr.privacy.leaving import Answers
from fedct_flwr.text.printable import printable
from fedct_flwr.types import SiloName

UNIT: Final = "one record of a silo, added or removed"
_LABELS: Final = Answers()

_NOT_COVERED: Final = (
    "**The public set.** Its examples are known to everybody; nothing here protects the people in it.",
    "**That the silo takes part**, its name, how many records it has, and what the study is about.",
    "**When an answer is given, or that none is**: how long it takes, refusals, and what stands in the egress log.",
    "**The models that stay at the silo**, which learn from all records without noise. Whoever is given one, or what "
    "it predicts, is told more than this sheet says.",
    "**Other studies on the same records.** What several studies ask adds up, and this sheet is about one of them.",
    "**What is true of many.** That smoking causes cancer can be learned from a silo that protects each smoker.",
)


@dataclass(frozen=True)
class Account:
    """What one silo's ledger says: epsilon as recomputed from its events, at the delta of its budget.

    ``epsilon``, ``delta`` are the budget in force; ``lower`` bounds from below what any analysis of the same events
    could promise, where that is known; ``accountant`` is the one that gave ``spent``. ``others`` is how many other
    studies were charged for the same records, ``together`` what all of them and this one have spent, at that delta.
    """

    silo: SiloName
    epsilon: float
    delta: float
    charges: int = 0
    spent: float = 0.0
    lower: float | None = None
    accountant: str = ""
    others: int = 0
    together: float = 0.0

    @property
    def kept(self) -> bool:
        """Whether no more was spent than may be."""
        return self.spent <= self.epsilon * (1 + 1e-9)


SIMULATED: Final = (
    "**This was a simulation.** Its noise follows from a seed, so it protects nobody; what follows is what the same "
    "settings promise where silos are real."
)


def promise(privacy: PrivacySettings, num_public: int, answers: Answers = _LABELS) -> list[str]:
    """What is promised, in sentences for who approves it."""
    return [
        f"What leaves: {answers.words(privacy)}",
        f"Unit: {UNIT}. Epsilon {privacy.epsilon:g}, delta {privacy.delta:g}, in total over the whole study",
        f"Planned for {answers.planned(privacy, num_public)}, all runs together; what the budget does not cover is "
        "refused",
    ]


def spent_words(account: Account) -> str:
    """What is spent and left, as the ledger has it."""
    if not account.charges:
        return f"Spent so far: nothing of epsilon {account.epsilon:g}"
    left = max(0.0, account.epsilon - account.spent)
    return f"Spent so far: epsilon {account.spent:.3g} of {account.epsilon:g}, {left:.3g} left"


def together_words(account: Account) -> list[str]:
    """What other studies add, in a sentence; nothing where there is none."""
    if not account.others:
        return []
    others = "another study has" if account.others == 1 else f"{account.others:,} other studies have"
    return [
        f"On the same records {others} spent too: all together epsilon {account.together:.3g} at delta "
        f"{account.delta:g}, which no budget bounds"
    ]


def sheet(
    study: str,
    privacy: PrivacySettings,
    num_public: int,
    accounts: Sequence[Account],
    *,
    simulated: bool,
    metrics: bool,
    unprotected: int = 0,
    answers: Answers = _LABELS,
) -> str:
    """The page, as Markdown.

    ``metrics``: whether test scores left beside the labels. ``unprotected``: labels that left under approvals without a
    protection, by the silo's own log. ``answers``: what silos are asked for.
    """
    parts = [f"# Privacy sheet: study {printable(study)}"]
    if not privacy.enabled:
        parts.append(
            f"**Nothing is promised.** What leaves are {answers.bare()}, without noise: they tell something of the "
            f"records that the models learned from. To promise something, {_advice(answers, simulated=simulated)}."
        )
        return "\n\n".join(parts) + "\n"
    if simulated:
        parts.append(SIMULATED)
    parts += [
        "## What is promised",
        bullets(
            [
                f"**Whom it protects:** {UNIT}. The smaller epsilon is, the less can whoever sees all that left tell "
                "whether any one record was there.",
                f"**How much:** epsilon {privacy.epsilon:g}, delta {privacy.delta:g}, in total over all rounds, runs "
                "and restarts of the study. Taking part changes the odds of anything that anybody concludes of a "
                f"record by a factor of {factor(privacy.epsilon)} at most, but for a chance of {privacy.delta:g}.",
                f"**What leaves:** {answers.words(privacy)} (`{privacy.protection}`).",
                f"**Planned:** {answers.planned(privacy, num_public)}.",
            ]
        ),
        "## What was spent",
        _table(accounts),
        _verdict(accounts),
        *_together(accounts),
        *_bare(unprotected),
        "## What is assumed",
        bullets(
            [
                "The number of records, the columns and classes of the study, the public set and the consensus labels "
                "are public.",
                "Each person is one record. Who is in the file more than once is protected that much less.",
                "Everything that left went through the ledger, and the operating system's random numbers are random.",
                "Nobody but the silo reads its state folder, or puts back an older copy of the ledger together with "
                "its mark.",
            ]
        ),
        "## What is not covered",
        bullets([scores(metrics), *_NOT_COVERED, *_floats(privacy)]),
    ]
    return "\n\n".join(parts) + "\n"


def _advice(answers: Answers, *, simulated: bool) -> str:
    if answers.probabilities:
        instead = _advice(Answers(students=answers.students), simulated=simulated)
        what = "values" if answers.values else "probabilities"
        return f"share labels or votes in place of {what}, which no protection covers, and {instead}"
    if not answers.students:
        return "set `protection` under `[privacy]`"
    if simulated:
        return "set `privacy-level` to L1 or L2"
    return "set `protection` to `teachers` under `[privacy]`"


def bullets(lines: Sequence[str]) -> str:
    """A list, as Markdown."""
    return "\n".join(f"- {line}" for line in lines)


def factor(epsilon: float) -> str:
    """E to the epsilon, as people say it."""
    # Beyond that it is no promise that anybody can make something of.
    return f"{2.718281828459045**epsilon:.3g}" if epsilon <= 20 else "more than a hundred million"


def _table(accounts: Sequence[Account]) -> str:
    rows = ["| silo | charges | epsilon spent | of | at delta |", "| --- | --- | --- | --- | --- |"]
    rows += [
        f"| {printable(account.silo)} | {account.charges:,} | {account.spent:.4g} | {account.epsilon:g} "
        f"| {account.delta:g} |"
        for account in accounts
    ]
    return "\n".join(rows)


def _verdict(accounts: Sequence[Account]) -> str:
    said = (
        "This was recomputed just now from the events in each ledger, which has every draw of noise, by composition "
        "(pure, Rényi, and privacy loss distributions; the least bound counts)."
    )
    known = [account for account in accounts if account.lower is not None and account.charges]
    if known:
        least = min(account.lower or 0.0 for account in known)
        said += f" By no analysis of the same events could any of the silos promise less than {least:.4g}."
    over = [printable(account.silo) for account in accounts if not account.kept]
    if over:
        return f"{said} **The promise is broken at {', '.join(over)}: more was spent than the budget.**"
    return f"{said} No silo has spent more than its budget."


def _together(accounts: Sequence[Account]) -> list[str]:
    return [f"**{printable(account.silo)}:** {said}." for account in accounts for said in together_words(account)]


def _bare(unprotected: int) -> list[str]:
    if not unprotected:
        return []
    return [
        f"**{unprotected:,} labels of this study have left without protection**, by the silo's own log, under "
        "approvals that promised nothing. This page does not cover them."
    ]


def scores(metrics: bool) -> str:
    """What is to be said of test scores; ``metrics``: whether they left."""
    if metrics:
        return "**Test scores, which left** beside the labels: they are computed from private records without noise."
    return "**Test scores.** They are computed from private records without noise; none left."


def _floats(privacy: PrivacySettings) -> list[str]:
    if privacy.protection != "dp-sgd":
        return ["**Floating point is not used** where noise is added: votes, labels and gradients are integers there."]
    return [
        "**Floating point.** Gradients are sums of floating-point numbers, and noise on them is rounded; the theory is "
        "about real numbers. Only labels leave, never the sums."
    ]
