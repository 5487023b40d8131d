"""The privacy sheet of a run whose coordinator adds noise: what it promises to each silo, and to whom it does not."""

from typing import Final

from fedct_flwr.privacy.sheet import PUBLIC_SET, SIMULATED, bullets, factor, rounded_up, scores
from fedct_flwr.privacy.spending import Spending
from fedct_flwr.text.printable import printable

_NOT_COVERED: Final = (
    "**The coordinator.** It sees what each silo sent, before any noise. Whoever distrusts it needs noise at the silo.",
    "**The coordinator's run folder**, its report and its console: how far each silo agrees with the labels, and how "
    "well the silos' models vote, is computed without noise. They have to stay with the coordinator. The global model "
    "and its card may leave: they hold nothing of it.",
    "**Further runs over the same silos.** What they cost adds up. The coordinator keeps no ledger: this page is about "
    "one run, nobody counts them together, and none is refused.",
    PUBLIC_SET,
    "**That a silo takes part.** A silo's votes are compared with other votes, not with none. When it answers and what "
    "the study is about are not covered either.",
    "**The models that stay at the silos**, which learn from all records.",
    "**What is true of many.** That smoking causes cancer can be learned although each silo is protected.",
)


def sheet_of_noise(study: str, cost: Spending, *, simulated: bool, metrics: bool, silos_protect: bool = False) -> str:
    """The page, as Markdown. ``cost`` is that of the coordinator's noise. Raises ValueError for noise of other kinds.

    ``metrics``: whether test scores left. ``silos_protect``: whether simulated silos have a protection of their own.
    """
    epsilon, delta, noise = rounded_up(cost.epsilon), cost.delta, cost.noise
    if noise is None:
        raise ValueError("there is no noise on votes to tell of")
    parts = [f"# Privacy sheet: study {printable(study)}, the coordinator's promise"]
    if simulated:
        parts.append(SIMULATED)
    parts += [
        "## What is promised",
        bullets(
            [
                "**Who promises:** the coordinator, which adds noise to the silos' votes before it decides on a label. "
                + _of_silos(simulated=simulated, silos_protect=silos_protect),
                "**Whom it protects:** each silo as a whole, all its votes replaced by whatever else, and so each of "
                "its records too.",
                "**From whom:** from whoever sees the labels and the model made of them. **Not from the coordinator**, "
                "who sees the votes.",
                f"**How much:** epsilon {epsilon:g}, delta {delta:g}, for this run. What a silo sends changes the "
                "odds of anything that anybody concludes from the labels by a factor of "
                f"{factor(epsilon)} at most, but for a chance of {delta:g}.",
            ]
        ),
        "## What was spent",
        f"All of it, in one round: a label for each of {noise.queries:,} public examples, decided under "
        f"{noise.mechanism} noise of scale {noise.scale:.4g} votes. Epsilon is what the accountant `{cost.accountant}` "
        "says of this noise, whatever the votes are. It stands in the run's `result.json`; there is no ledger to "
        "recompute it from.",
        "## What is assumed",
        bullets(
            [
                "Which silos answered, the public set and its classes are public.",
                "The coordinator does as it says, and the operating system's random numbers are random.",
                "Nobody takes part under two silos' names, and no record is at two silos: it would be protected less.",
            ]
        ),
        "## What is not covered",
        bullets([scores(metrics), *_NOT_COVERED]),
    ]
    return "\n\n".join(parts) + "\n"


def _of_silos(*, simulated: bool, silos_protect: bool) -> str:
    if not simulated:
        return "What each silo promises beside that is its own: ask it for `fedct privacy-sheet` of its folder."
    if silos_protect:
        return "What each silo promises beside that is on the page below."
    return "The silos add none: what they send is not protected."
