"""The privacy sheet of a run with the joint labeler: noise in shares, on sums that nobody can take apart."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fedct_flwr.config import PrivacySettings, StudyJoint
from fedct_flwr.privacy.sheet import PUBLIC_SET, SIMULATED, UNIT, bullets, factor, ledgers, scores, verdict
from fedct_flwr.privacy.spending import Spending
from fedct_flwr.text.printable import printable

_NOT_COVERED: Final = (
    PUBLIC_SET,
    "**That the silo takes part**, its name, and how many records all silos have together.",
    "**When an answer is given, or that none is.**",
    "**The models that stay at the silos.** They learn from all records without noise, next to the protected labels.",
    "**What is true of many.** That smoking causes cancer can be learned from a silo that protects each smoker.",
)


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
    numbers = f"{together.steps} sums of {together.numbers:,} numbers"
    whole, other = ("the run", "runs") if simulated else ("the study", "studies")
    parts = [
        f"# Privacy sheet: study {printable(study)}, the joint labeler",
        *([SIMULATED] if simulated else []),
        "## What is promised",
        bullets(
            [
                f"**Whom it protects:** {UNIT}.",
                "**From whom:** from everybody who reads the sums, the labels or the global model. That includes the "
                f"coordinator and colluding silos, {together.may_collude} at most.",
                f"**How much:** epsilon {epsilon:g}, delta {delta:g}, in total over all steps and resumptions of "
                f"{whole}. Taking part changes the odds of any conclusion about a record by a factor of "
                f"{factor(epsilon)} at most, except with a chance of {delta:g}.",
                f"**What leaves:** parts of {numbers} a training, gradients of one linear model. Only sums over the "
                "silos can be read. The public labels follow from these sums and from public data.",
            ]
        ),
        "## What was spent",
        ledgers(accounts),
        verdict(accounts),
        f"Each silo charges every sum to its ledger before it draws noise. At least {together.honest} silos count as "
        f"honest, and their noise in each sum has a standard deviation of {together.noise_multiplier:.4g} times the "
        "largest change that one record makes. Gradients and noise are integers: nothing is rounded after clipping.",
        "## What is assumed",
        bullets(
            [
                "Nobody can read a single silo's part of a sum (the secure sum is not broken).",
                f"Each opened sum has {together.min_summands} silos or more, and {together.honest} of them add their "
                "share of the noise.",
                "The number of records of all silos together, the columns, the classes, the roster and the public set "
                "are public.",
                "Each person is one record. Several records of one person weaken that person's guarantee.",
                "The operating system's random numbers are random.",
            ]
        ),
        "## What is not covered",
        bullets(
            [
                scores(metrics),
                *_NOT_COVERED,
                f"**Other {other} on the same records.** What several {other} ask adds up, and this page is about one "
                "of them.",
            ]
        ),
    ]
    return "\n\n".join(parts) + "\n"
