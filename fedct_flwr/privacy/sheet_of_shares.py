"""The privacy sheet of a run whose silos add noise in shares to the sum of their votes: a promise to each silo."""

from collections.abc import Sequence
from typing import Final

from fedct_flwr.privacy.sheet import (
    PUBLIC_SET,
    SIMULATED,
    bullets,
    factor,
    ledgers,
    rounded_up,
    said_of_others,
    scores,
    verdict,
)
from fedct_flwr.privacy.spending import Spending
from fedct_flwr.text.printable import printable

_NOT_COVERED: Final = (
    "**Silos that lie.** A silo that says it adds noise and does not counts as one that colludes. Any silo can spoil a "
    "sum by adding garbage, and learns nothing by that.",
    "**Which silos took part**, and when: that counts as public.",
    "**Other runs and studies of the same silos.** What they cost adds up; this page is about one.",
    PUBLIC_SET,
    "**The models that stay at the silos**, which learn from all records.",
    "**What is true of many.** That smoking causes cancer can be learned although each silo is protected.",
)


def sheet_of_shares(
    study: str,
    cost: Spending,
    accounts: Sequence[Spending],
    *,
    simulated: bool,
    metrics: bool,
) -> str:
    """The page, as Markdown. ``cost`` is that of the run's sum, ``accounts`` are those that the silos' ledgers have.

    ``metrics``: whether test scores left. Raises ValueError for noise of other kinds.
    """
    noise = cost.noise
    if noise is None or not noise.honest:
        raise ValueError("there is no noise in shares to tell of")
    epsilon, delta = rounded_up(cost.epsilon), cost.delta
    parts = [f"# Privacy sheet: study {printable(study)}, the silos' noise in shares"]
    if simulated:
        parts.append(SIMULATED)
    own = "Each silo charged it to its own ledger before it added its share: ask it for `fedct privacy-sheet`."
    parts += [
        "## What is promised",
        bullets(
            [
                "**Who promises:** the silos. Each adds its share of the noise to its votes, inside the secure sum.",
                "**Whom it protects:** each silo as a whole, all its votes replaced by whatever else, and so each of "
                "its records too.",
                "**From whom:** from everybody, the coordinator too, if at most "
                f"{_silos(noise.may_collude)} collude with it.",
                f"**How much:** epsilon {epsilon:g}, delta {delta:g}, for this run. What a silo adds changes the odds "
                "of anything that anybody concludes from the sum or the labels by a factor of "
                f"{factor(epsilon)} at most, except with a chance of {delta:g}.",
                "**What leaves:** a part of one secure sum. Only the sum over the silos can be read, with its noise.",
            ]
        ),
        "## What was spent",
        f"One sum: counts of votes for each of {noise.queries:,} public examples, under noise with a standard "
        f"deviation of {noise.scale:.4g} votes. Only the shares of {_silos(noise.honest)} are counted; those of the "
        f"others come on top. Epsilon is what the accountant `{cost.accountant}` says of this noise, whatever the "
        "votes are (Kairouz, Liu, Steinke, ICML 2021).",
        *([ledgers(accounts), verdict(accounts)] if accounts else [own]),
        "## What is assumed",
        bullets(_assumed(noise.honest, noise.may_collude)),
        "## What is not covered",
        bullets([scores(metrics), *_NOT_COVERED]),
    ]
    return "\n\n".join(parts) + "\n"


def sheet_of_silo_in_sums(study: str, account: Spending, honest: int, may_collude: int, bare: int = 0) -> str:
    """The page of a real silo that lets nothing out but sums with noise, as Markdown.

    ``account`` is what its ledger has for the silo as a whole; of each sum ``honest`` silos do not collude, and
    ``may_collude`` may. ``bare``: labels that left before, under approvals without this promise.
    """
    epsilon, delta = account.budget, account.delta
    parts = [
        f"# Privacy sheet: study {printable(study)}, secure sums with noise",
        "## What is promised",
        bullets(
            [
                "**Whom it protects:** this silo as a whole, all its votes replaced by whatever else, and so each of "
                "its records too.",
                "**From whom:** from everybody, the coordinator too, if at most "
                f"{_silos(may_collude)} collude with it.",
                f"**How much:** epsilon {epsilon:g}, delta {delta:g}, in total over all sums, runs and restarts of the "
                "study. What the silo adds changes the odds of anything that anybody concludes by a factor of "
                f"{factor(epsilon)} at most, except with a chance of {delta:g}.",
                "**What leaves:** parts of secure sums of votes. Only the sum over the silos can be read, and each "
                "silo has added its share of noise to it. The gate refuses all other questions.",
            ]
        ),
        "## What was spent",
        ledgers([account]),
        verdict([account]),
        *_other_studies(account),
        *without_noise(bare),
        "## What is assumed",
        bullets(_assumed(honest, may_collude)),
        "## What is not covered",
        bullets([scores(False), *_NOT_COVERED]),
    ]
    return "\n\n".join(parts) + "\n"


def _other_studies(account: Spending) -> list[str]:
    """What sums of other studies have spent; nothing where there are none."""
    others = "another study" if account.others == 1 else f"{account.others:,} other studies"
    return [f"{said}." for said in said_of_others(account, f"**Sums with noise of {others} have spent too:**")]


def without_noise(labels: int) -> list[str]:
    """What is to be said of labels that left before sums had noise."""
    if not labels:
        return []
    return [
        f"**{labels:,} labels of this study left before, without noise**, by the silo's own log. Nothing covers them."
    ]


def _assumed(honest: int, may_collude: int) -> list[str]:
    return [
        "Nobody can read a single silo's part of a sum (the secure sum is not broken).",
        f"Each opened sum has {_silos(honest + may_collude)} or more, and {honest} of them do not collude and add "
        "their share of the noise.",
        "The operating system's random numbers are random.",
        "Nobody takes part under two silos' names, and no record is at two silos: it would be protected less.",
    ]


def _silos(number: int) -> str:
    return f"{number} silo{'s' * (number != 1)}"
