"""The privacy sheet: one page of plain language on what is promised, what was spent, and what is not covered.

Pages differ by who adds the noise: a silo for its records, all silos for the joint labeler, the coordinator, or silos
in shares. ``page`` gives all of them one form.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context
from typing import Final

from fedct_flwr.config import PrivacySettings, StudyJoint
from fedct_flwr.config.protections import COVER_VOTES
from fedct_flwr.privacy.leaving import Answers
from fedct_flwr.privacy.spending import Spending
from fedct_flwr.text.plural import count
from fedct_flwr.text.printable import printable

UNIT: Final = "one record of a silo, added or removed"
_LABELS: Final = Answers()
_UP: Final = Context(prec=4, rounding=ROUND_CEILING)

_PUBLIC_SET: Final = "**The public set.** Its examples are known to everybody; nothing here protects the people in it."
_TRUE_OF_MANY: Final = (
    "**What is true of many.** That smoking causes cancer can be learned from a silo that protects each smoker."
)
_RANDOM: Final = "The operating system's random numbers are random."
_SECURE: Final = "Nobody can read a single silo's part of a sum (the secure sum is not broken)."
_ONE_PERSON: Final = "Each person is one record. Several records of one person weaken that person's guarantee."
_ONE_SILO: Final = "No silo takes part under two names, and no record is at two silos: it would be protected less."
_WHOLE_SILO: Final = "silo as a whole, all its votes replaced by whatever else, and so each of its records too."
_MODELS: Final = "**The models that stay at the silos**, which learn from all records without noise."
_NOT_COVERED: Final = (
    _PUBLIC_SET,
    "**That the silo takes part**, its name, how many records it has, and what the study is about.",
    "**When an answer is given, or that none is**: how long it takes, refusals, and what stands in the egress log.",
    "**The models that stay at the silo**, which learn from all records without noise. Whoever is given one, or what "
    "it predicts, is told more than this sheet says.",
    "**Other studies on the same records.** What several studies ask adds up, and this sheet is about one of them.",
    _TRUE_OF_MANY,
)
_NOT_BY_JOINT: Final = (
    _PUBLIC_SET,
    "**That the silo takes part**, its name, and how many records all silos have together.",
    "**When an answer is given, or that none is.**",
    _MODELS,
    _TRUE_OF_MANY,
)
_NOT_BY_COORDINATOR: Final = (
    "**The coordinator.** It sees what each silo sent, before any noise. Whoever distrusts it needs noise at the silo.",
    "**The coordinator's run folder**, its report and its console: how far each silo agrees with the labels, and how "
    "well the silos' models vote, is computed without noise. They have to stay with the coordinator. The global model "
    "and its card may leave: they hold nothing of it.",
    "**Further runs over the same silos.** What they cost adds up. The coordinator keeps no ledger: this page is about "
    "one run, nobody counts them together, and none is refused.",
    _PUBLIC_SET,
    "**That a silo takes part.** A silo's votes are compared with other votes, not with none. When it answers and what "
    "the study is about are not covered either.",
    _MODELS,
    _TRUE_OF_MANY,
)
_NOT_IN_SHARES: Final = (
    "**Silos that lie.** A silo that says it adds noise and does not counts as one that colludes. Any silo can spoil a "
    "sum by adding garbage, and learns nothing by that.",
    "**Which silos took part**, and when: that counts as public.",
    "**Other runs and studies of the same silos.** What they cost adds up; this page is about one.",
    _PUBLIC_SET,
    _MODELS,
    _TRUE_OF_MANY,
)
_SIMULATED: Final = (
    "**This was a simulation.** Its noise follows from a seed, so it protects nobody; what follows is what the same "
    "settings promise where silos are real."
)


def page(
    title: str,
    promised: Sequence[str],
    spent: Sequence[str],
    assumed: Sequence[str],
    not_covered: Sequence[str],
    *,
    simulated: bool,
) -> str:
    """A page of all five parts, as Markdown."""
    parts = [f"# Privacy sheet: study {title}", *([_SIMULATED] if simulated else [])]
    parts += ["## What is promised", _bullets(promised), "## What was spent", *spent]
    parts += ["## What is assumed", _bullets(assumed), "## What is not covered", _bullets(not_covered)]
    return "\n\n".join(parts) + "\n"


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
    if not privacy.enabled:
        return (
            f"# Privacy sheet: study {printable(study)}\n\n"
            f"**Nothing is promised.** What leaves are {answers.bare()}, without noise: they tell something of the "
            f"records that the models learned from. To promise something, {_advice(answers, simulated=simulated)}.\n"
        )
    return page(
        printable(study),
        [
            f"**Whom it protects:** {UNIT}. The smaller epsilon is, the less can whoever sees all that left tell "
            "whether any one record was there.",
            _how_much(privacy.epsilon, privacy.delta, "in total over all rounds, runs and restarts of the study"),
            f"**What leaves:** {answers.words(privacy)} (`{privacy.protection}`).",
            f"**Planned:** {answers.planned(privacy, num_public)}.",
        ],
        [_ledgers(accounts), _verdict(accounts), *_together(accounts), *_bare(unprotected)],
        [
            "The number of records, the columns and classes of the study, the public set and the consensus labels "
            "are public.",
            _ONE_PERSON,
            "Everything that left went through the ledger.",
            _RANDOM,
            "Nobody but the silo reads its state folder, or puts back an older copy of the ledger together with "
            "its mark.",
        ],
        [_scores(metrics), *_NOT_COVERED, *_floats(privacy)],
        simulated=simulated,
    )


def _how_much(epsilon: float, delta: float, over: str) -> str:
    return (
        f"**How much:** epsilon {epsilon:g}, delta {delta:g}, {over}. Taking part changes the odds of anything that "
        f"anybody concludes by a factor of {_factor(epsilon)} at most, except with a chance of {delta:g}."
    )


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


def _bullets(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _rounded_up(epsilon: float) -> float:
    """With four digits: to say less than it is would promise too much."""
    return float(_UP.create_decimal(epsilon))


def _factor(epsilon: float) -> str:
    """E to the epsilon, as people say it."""
    # Beyond that it is no promise that anybody can make something of.
    return f"{2.718281828459045**epsilon:.3g}" if epsilon <= 20 else "more than a hundred million"


def _ledgers(accounts: Sequence[Spending]) -> str:
    """What each ledger has, as a table in Markdown."""
    rows = ["| silo | charges | epsilon spent | of | at delta |", "| --- | --- | --- | --- | --- |"]
    rows += [
        f"| {printable(account.whom)} | {account.charges:,} | {account.epsilon:.4g} | {account.budget:g} "
        f"| {account.delta:g} |"
        for account in accounts
    ]
    return "\n".join(rows)


def _verdict(accounts: Sequence[Spending]) -> str:
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


def _scores(metrics: bool) -> str:
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


# --- the joint labeler


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
    whole, other = ("the run", "runs") if simulated else ("the study", "studies")
    return page(
        f"{printable(study)}, the joint labeler",
        [
            f"**Whom it protects:** {UNIT}.",
            "**From whom:** from everybody who reads the sums, the labels or the global model. That includes the "
            f"coordinator and colluding silos, {together.may_collude} at most.",
            _how_much(epsilon, delta, f"in total over all steps and resumptions of {whole}"),
            f"**What leaves:** parts of {together.steps} sums of {together.numbers:,} numbers a training, gradients of "
            "one linear model. Only sums over the silos can be read. The public labels follow from these sums and from "
            "public data.",
        ],
        [
            _ledgers(accounts),
            _verdict(accounts),
            f"Each silo charges every sum to its ledger before it draws noise. At least {together.honest} silos count "
            "as honest, and their noise in each sum has a standard deviation of "
            f"{together.noise_multiplier:.4g} times the largest change that one record makes. Gradients and noise are "
            "integers: nothing is rounded after clipping.",
        ],
        [
            _SECURE,
            f"Each opened sum has {together.min_summands} silos or more, and {together.honest} of them add their "
            "share of the noise.",
            "The number of records of all silos together, the columns, the classes, the roster and the public set "
            "are public.",
            _ONE_PERSON,
            _RANDOM,
        ],
        [
            _scores(metrics),
            *_NOT_BY_JOINT,
            f"**Other {other} on the same records.** What several {other} ask adds up, and this page is about one.",
        ],
        simulated=simulated,
    )


# --- noise on votes: the coordinator's, or the silos' in shares


def sheet_of_noise(study: str, cost: Spending, *, simulated: bool, metrics: bool, silos_protect: bool = False) -> str:
    """The page, as Markdown. ``cost`` is that of the coordinator's noise. Raises ValueError for noise of other kinds.

    ``metrics``: whether test scores left. ``silos_protect``: whether simulated silos have a protection of their own.
    """
    noise = cost.noise
    if noise is None:
        raise ValueError("there is no noise on votes to tell of")
    own = "The silos add none: what they send is not protected."
    if silos_protect:
        own = "What each silo promises beside that is on the page below."
    if not simulated:
        own = "What each silo promises beside that is its own: ask it for `fedct privacy-sheet` of its folder."
    return page(
        f"{printable(study)}, the coordinator's promise",
        [
            "**Who promises:** the coordinator, which adds noise to the silos' votes before it decides on a label. "
            + own,
            f"**Whom it protects:** each {_WHOLE_SILO}",
            "**From whom:** from whoever sees the labels and the model made of them. **Not from the coordinator**, "
            "who sees the votes.",
            _how_much(_rounded_up(cost.epsilon), cost.delta, "for this run"),
        ],
        [
            f"All of it, in one round: a label for each of {noise.queries:,} public examples, decided under "
            f"{noise.mechanism} noise of scale {noise.scale:.4g} votes. Epsilon is what the accountant "
            f"`{cost.accountant}` says of this noise, whatever the votes are. It stands in the run's `result.json`; "
            "there is no ledger to recompute it from."
        ],
        [
            "Which silos answered, the public set and its classes are public.",
            f"The coordinator does as it says. {_RANDOM}",
            _ONE_SILO,
        ],
        [_scores(metrics), *_NOT_BY_COORDINATOR],
        simulated=simulated,
    )


def sheet_of_shares(study: str, cost: Spending, accounts: Sequence[Spending], *, simulated: bool, metrics: bool) -> str:
    """The page, as Markdown. ``cost`` is that of the run's sum, ``accounts`` are those that the silos' ledgers have.

    ``metrics``: whether test scores left. Raises ValueError for noise of other kinds.
    """
    noise = cost.noise
    if noise is None or not noise.honest:
        raise ValueError("there is no noise in shares to tell of")
    own = "Each silo charged it to its own ledger before it added its share: ask it for `fedct privacy-sheet`."
    return page(
        f"{printable(study)}, the silos' noise in shares",
        [
            "**Who promises:** the silos. Each adds its share of the noise to its votes, inside the secure sum.",
            f"**Whom it protects:** each {_WHOLE_SILO}",
            _from_everybody(noise.may_collude),
            _how_much(_rounded_up(cost.epsilon), cost.delta, "for this run"),
            "**What leaves:** a part of one secure sum. Only the sum over the silos can be read, with its noise.",
        ],
        [
            f"One sum: counts of votes for each of {noise.queries:,} public examples, under noise with a standard "
            f"deviation of {noise.scale:.4g} votes. Only the shares of {count(noise.honest, 'silo')} are counted; "
            f"those of the others come on top. Epsilon is what the accountant `{cost.accountant}` says of this noise, "
            "whatever the votes are (Kairouz, Liu, Steinke, ICML 2021).",
            *([_ledgers(accounts), _verdict(accounts)] if accounts else [own]),
        ],
        _assumed(noise.honest, noise.may_collude),
        [_scores(metrics), *_NOT_IN_SHARES],
        simulated=simulated,
    )


def sheet_of_silo_in_sums(study: str, account: Spending, honest: int, may_collude: int, bare: int = 0) -> str:
    """The page of a real silo that lets nothing out but sums with noise, as Markdown.

    ``account`` is what its ledger has for the silo as a whole; of each sum ``honest`` silos do not collude, and
    ``may_collude`` may. ``bare``: labels that left before, under approvals without this promise.
    """
    others = "another study" if account.others == 1 else f"{account.others:,} other studies"
    said = said_of_others(account, f"**Sums with noise of {others} have spent too:**")
    return page(
        f"{printable(study)}, secure sums with noise",
        [
            f"**Whom it protects:** this {_WHOLE_SILO}",
            _from_everybody(may_collude),
            _how_much(account.budget, account.delta, "in total over all sums, runs and restarts of the study"),
            "**What leaves:** parts of secure sums of votes. Only the sum over the silos can be read, and each silo "
            "has added its share of noise to it. The gate refuses all other questions.",
        ],
        [_ledgers([account]), _verdict([account]), *(f"{one}." for one in said), *without_noise(bare)],
        _assumed(honest, may_collude),
        [_scores(False), *_NOT_IN_SHARES],
        simulated=False,
    )


def without_noise(labels: int) -> list[str]:
    """What is to be said of labels that left before sums had noise."""
    if not labels:
        return []
    return [
        f"**{labels:,} labels of this study left before, without noise**, by the silo's own log. Nothing covers them."
    ]


def _from_everybody(may_collude: int) -> str:
    silos = count(may_collude, "silo")
    return f"**From whom:** from everybody, the coordinator too, if at most {silos} collude with it."


def _assumed(honest: int, may_collude: int) -> list[str]:
    silos = count(honest + may_collude, "silo")
    return [
        _SECURE,
        f"Each opened sum has {silos} or more, and {honest} of them do not collude and add their share of the noise.",
        _RANDOM,
        _ONE_SILO,
    ]
