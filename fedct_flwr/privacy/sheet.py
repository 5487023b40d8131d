"""The privacy sheet: one page of plain language on what is promised, what was spent, and what is not covered.

The template ``sheet.md`` has a part for each kind of promise: a silo's for its ``records``, all silos' for the
``joint`` labeler, the ``coordinator``'s noise, silos' noise in ``shares``, and a real silo's part of ``sums``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context
from typing import Any, Final

from fedct_flwr.config import PrivacySettings, StudyJoint
from fedct_flwr.config.protections import COVER_VOTES
from fedct_flwr.privacy.leaving import Answers
from fedct_flwr.privacy.spending import Spending
from fedct_flwr.text.markdown import template
from fedct_flwr.text.printable import printable

UNIT: Final = "one record of a silo, added or removed"
_LABELS: Final = Answers()
_UP: Final = Context(prec=4, rounding=ROUND_CEILING)


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


@dataclass(frozen=True)
class Together:
    """How silos train together: ``steps`` sums of ``numbers`` numbers each, with the noise of ``honest`` silos counted.

    ``noise_multiplier``: standard deviation of the counted noise in one sum, for a record's largest change of 1.
    """

    steps: int
    numbers: int
    honest: int
    noise_multiplier: float
    min_summands: int
    may_collude: int


def promise_together(together: Together, joint: StudyJoint, privacy: PrivacySettings) -> list[str]:
    """What is promised, in sentences for who approves it."""
    return [
        f"What leaves looks random: parts of {together.steps} sums of {together.numbers:,} numbers. Opened is only a "
        f"sum of at least {together.min_summands} silos, and the silos' noise is in it",
        f"Unit: {UNIT}. One training costs it epsilon {joint.epsilon:g}, delta {joint.delta:g}, all steps together",
        f"All runs of the study together may cost epsilon {privacy.epsilon:g}, delta {privacy.delta:g}, as [privacy] "
        "says. The silo's ledger is charged before a number is sent, and beyond that it sends none",
        f"It holds against everybody, the coordinator too, if at most {together.may_collude} of the silos collude. The "
        f"noise of {together.honest} honest silos is counted in each sum",
        f"The study says that all silos have about {joint.records:,} records. How many this silo has does not leave",
    ]


def _page(kind: str, study: str, accounts: Sequence[Spending] = (), said: Sequence[str] = (), **values: Any) -> str:
    """The page of one kind, as Markdown."""
    least = min((one.lower for one in accounts if one.lower is not None and one.charges), default=None)
    broken = [account.whom for account in accounts if not account.kept]
    facts = {"accounts": accounts, "said": said, "least": least, "broken": broken, "honest": 0, "may_collude": 0}
    words = {"factor": _factor, "unit": UNIT}
    return template(__package__, "sheet.md").render(kind=kind, study=study, **words, **facts | values).lstrip("\n")


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
    """The page of silos that protect their records, as Markdown.

    ``metrics``: whether test scores left with the labels. ``unprotected``: labels that left under approvals without a
    protection, by the silo's own log. ``answers``: what silos are asked for.
    """
    if not privacy.enabled:
        advice = _advice(answers, simulated=simulated)
        return _page("nothing", study, bare=answers.bare(), advice=advice, simulated=simulated, metrics=metrics)
    said = [f"**{printable(one.whom)}:** {words}." for one in accounts for words in together_words(one)]
    if unprotected:
        said.append(
            f"**{unprotected:,} labels of this study have left without protection**, by the silo's own log, under "
            "approvals that promised nothing. This page does not cover them."
        )
    return _page(
        "records",
        study,
        accounts,
        said,
        privacy=privacy,
        leaves=answers.words(privacy),
        planned=answers.planned(privacy, num_public),
        simulated=simulated,
        metrics=metrics,
    )


def sheet_of_joint(
    study: str,
    together: Together,
    epsilon: float,
    delta: float,
    accounts: Sequence[Spending],
    *,
    metrics: bool,
    simulated: bool = True,
) -> str:
    """The page, as Markdown. ``epsilon`` and ``delta`` are totals; ``metrics``: whether test scores left.

    ``simulated``: of a run. Otherwise it is a real silo's, of all runs of the study.
    """
    numbers: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "may_collude": together.may_collude}
    return _page("joint", study, accounts, together=together, metrics=metrics, simulated=simulated, **numbers)


def sheet_of_noise(study: str, cost: Spending, *, simulated: bool, metrics: bool, silos_protect: bool = False) -> str:
    """The page, as Markdown. ``cost`` is that of the coordinator's noise. Raises ValueError for noise of other kinds.

    ``metrics``: whether test scores left. ``silos_protect``: whether simulated silos have a protection of their own.
    """
    if cost.noise is None:
        raise ValueError("there is no noise on votes to tell of")
    own = "The silos add none: what they send is not protected."
    if silos_protect:
        own = "The page below has what each silo promises in addition."
    if not simulated:
        own = "Each silo may promise more: ask it for `fedct privacy-sheet` of its folder."
    return _page("coordinator", study, own=own, simulated=simulated, metrics=metrics, **_of_noise(cost))


def sheet_of_shares(study: str, cost: Spending, accounts: Sequence[Spending], *, simulated: bool, metrics: bool) -> str:
    """The page, as Markdown. ``cost`` is that of the run's sum, ``accounts`` are those that the silos' ledgers have.

    ``metrics``: whether test scores left. Raises ValueError for noise of other kinds.
    """
    noise = cost.noise
    if noise is None or not noise.honest:
        raise ValueError("there is no noise in shares to tell of")
    silos: dict[str, Any] = {"honest": noise.honest, "may_collude": noise.may_collude}
    return _page("shares", study, accounts, simulated=simulated, metrics=metrics, **silos, **_of_noise(cost))


def sheet_of_silo_in_sums(study: str, account: Spending, honest: int, may_collude: int, bare: int = 0) -> str:
    """The page of a real silo that lets nothing out but sums with noise, as Markdown.

    ``account`` is what its ledger has for the silo as a whole; of each sum ``honest`` silos do not collude, and
    ``may_collude`` may. ``bare``: labels that left before, under approvals without this promise.
    """
    others = "another study" if account.others == 1 else f"{account.others:,} other studies"
    said = [f"{words}." for words in said_of_others(account, f"**Sums with noise of {others} have spent too:**")]
    numbers: dict[str, Any] = {"epsilon": account.budget, "delta": account.delta}
    numbers |= {"honest": honest, "may_collude": may_collude, "simulated": False, "metrics": False}
    return _page("sums", study, [account], [*said, *without_noise(bare)], **numbers)


def _of_noise(cost: Spending) -> dict[str, Any]:
    """Epsilon with four digits, rounded up: less than it is would promise too much."""
    epsilon = float(_UP.create_decimal(cost.epsilon))
    return {"noise": cost.noise, "accountant": cost.accountant, "epsilon": epsilon, "delta": cost.delta}


def without_noise(labels: int) -> list[str]:
    """What is to be said of labels that left before sums had noise."""
    if not labels:
        return []
    return [
        f"**{labels:,} labels of this study left before, without noise**, by the silo's own log. Nothing covers them."
    ]


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


def _factor(epsilon: float) -> str:
    """E to the epsilon, as people say it."""
    # Beyond that it is no promise that anybody can make something of.
    return f"{2.718281828459045**epsilon:.3g}" if epsilon <= 20 else "more than a hundred million"
