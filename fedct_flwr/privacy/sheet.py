"""The privacy sheet: one page of plain language on what is promised, what was spent, and what is not covered."""

from collections.abc import Sequence
from decimal import ROUND_CEILING, Context
from typing import Final

from fedct_flwr.config import PrivacySettings
from fedct_flwr.config.protections import COVER_VOTES
from fedct_flwr.privacy.leaving import Answers
from fedct_flwr.privacy.spending import Spending
from fedct_flwr.text.printable import printable

UNIT: Final = "one record of a silo, added or removed"
_LABELS: Final = Answers()
_UP: Final = Context(prec=4, rounding=ROUND_CEILING)

PUBLIC_SET: Final = "**The public set.** Its examples are known to everybody; nothing here protects the people in it."

_NOT_COVERED: Final = (
    PUBLIC_SET,
    "**That the silo takes part**, its name, how many records it has, and what the study is about.",
    "**When an answer is given, or that none is**: how long it takes, refusals, and what stands in the egress log.",
    "**The models that stay at the silo**, which learn from all records without noise. Whoever is given one, or what "
    "it predicts, is told more than this sheet says.",
    "**Other studies on the same records.** What several studies ask adds up, and this sheet is about one of them.",
    "**What is true of many.** That smoking causes cancer can be learned from a silo that protects each smoker.",
)


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


def spent_words(account: Spending) -> str:
    """What is spent and left, as the ledger has it."""
    if not account.charges:
        return f"Spent so far: nothing of epsilon {account.budget:g}"
    return f"Spent so far: epsilon {account.epsilon:.3g} of {account.budget:g}, {account.left:.3g} left"


def clock_words(account: Spending) -> list[str]:
    """That the ledger's last charge has a date to come, and what approving does about it; nothing where it has none."""
    if not account.ahead:
        return []
    return [
        f"Warning: the clock is earlier than the privacy ledger's last charge ({account.ahead}). Where the clock is "
        "right, and was ahead then, approving corrects that date, and forgets no charge"
    ]


def together_words(account: Spending) -> list[str]:
    """What other studies add, in a sentence; nothing where there is none."""
    others = "another study has" if account.others == 1 else f"{account.others:,} other studies have"
    return said_of_others(account, f"On the same records {others} spent too:")


def said_of_others(account: Spending, begin: str) -> list[str]:
    """What all studies together cost, after these words; nothing where there is no other."""
    together = f"epsilon {account.together:.3g} at delta {account.delta:g}, which no budget bounds"
    return [f"{begin} all together {together}"] if account.others else []


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
        ledgers(accounts),
        verdict(accounts),
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
        joint = ", or choose the algorithm `fedct-joint`" if answers.summed else ""
        return f"set `protection`{joint}" if simulated else "set `protection` under `[privacy]`"
    if simulated:
        return "set `privacy-level` to L1 or L2"
    return f"set `protection` to {' or '.join(f'`{name}`' for name in COVER_VOTES)} under `[privacy]`"


def bullets(lines: Sequence[str]) -> str:
    """A list, as Markdown."""
    return "\n".join(f"- {line}" for line in lines)


def rounded_up(epsilon: float) -> float:
    """With four digits: to say less than it is would promise too much."""
    return float(_UP.create_decimal(epsilon))


def factor(epsilon: float) -> str:
    """E to the epsilon, as people say it."""
    # Beyond that it is no promise that anybody can make something of.
    return f"{2.718281828459045**epsilon:.3g}" if epsilon <= 20 else "more than a hundred million"


def ledgers(accounts: Sequence[Spending]) -> str:
    """What each ledger has, as a table in Markdown."""
    rows = ["| silo | charges | epsilon spent | of | at delta |", "| --- | --- | --- | --- | --- |"]
    rows += [
        f"| {printable(account.whom)} | {account.charges:,} | {account.epsilon:.4g} | {account.budget:g} "
        f"| {account.delta:g} |"
        for account in accounts
    ]
    return "\n".join(rows)


def verdict(accounts: Sequence[Spending]) -> str:
    """Whether all silos kept their promise, and how that was found."""
    said = (
        "This was recomputed just now from the events in each ledger, which has every draw of noise, by composition "
        "(pure, Rényi, and privacy loss distributions; the least bound counts)."
    )
    known = [account for account in accounts if account.lower is not None and account.charges]
    if known:
        least = min(account.lower or 0.0 for account in known)
        said += f" By no analysis of the same events could any of the silos promise less than {least:.4g}."
    over = [printable(account.whom) for account in accounts if not account.kept]
    if over:
        return f"{said} **The promise is broken at {', '.join(over)}: more was spent than the budget.**"
    return f"{said} No silo has spent more than its budget."


def _together(accounts: Sequence[Spending]) -> list[str]:
    return [f"**{printable(account.whom)}:** {said}." for account in accounts for said in together_words(account)]


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
    if not privacy.chosen.in_floats:
        return ["**Floating point is not used** where noise is added: votes, labels and gradients are integers there."]
    return [
        "**Floating point.** Gradients are sums of floating-point numbers, and noise on them is rounded; the theory is "
        "about real numbers. Only labels leave, never the sums."
    ]
