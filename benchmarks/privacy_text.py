"""Results on label quality, in words and tables."""

import math
from collections.abc import Sequence

from benchmarks import report
from benchmarks.federation import Runs
from benchmarks.privacy_data import Setting, Sizes
from benchmarks.privacy_votes import (
    DELTA,
    PAPERS_BITS,
    PAPERS_EPSILON,
    PAPERS_MECHANISM,
    PAPERS_PUBLIC,
    PAPERS_ROUNDS,
    PAPERS_XOR,
    UNPROTECTED,
)
from fedct_flwr.privacy.accounting import quick_epsilon
from fedct_flwr.privacy.mechanisms import repeated


def key(epsilon: float, mechanism: str) -> str:
    """Under what name a mechanism's values stand."""
    return f"epsilon {epsilon:g}, {mechanism}"


def table(setting: Setting, epsilons: Sequence[float], measured: dict[str, Runs]) -> str:
    """A row for each epsilon and mechanism, the paper's XOR, and what there is without any."""
    baselines = measured["baselines"]
    alone_mean = baselines.mean("local")
    rows = [
        [f"{epsilon:g}", name, *_cells(measured[key(epsilon, name)], alone_mean)]
        for epsilon in epsilons
        for name in setting.mechanisms
    ]
    rows.append([f"{PAPERS_EPSILON:g} a round", PAPERS_MECHANISM, *_cells(measured["paper's xor"], alone_mean)])
    return (
        report.table(
            ["total epsilon", "mechanism", "consensus on U", "personal models", "gain over local only"],
            rows,
        )
        + f"\nLocal only: {report.cell(baselines, 'local')}. "
        f"Majority class of U: {baselines.mean('majority'):.3f}.\n"
    )


def _cells(found: Runs, alone: float) -> list[str]:
    gain = f"{found.mean('personal') - alone:+.3f}"
    return [report.cell(found, "consensus"), report.cell(found, "personal"), gain]


def about(sizes: Sizes) -> str:
    """The measurement and its method."""
    return (
        f"Accuracy, mean ± standard error; epsilon per record in total, delta {DELTA:g}. One-shot co-training, called "
        "directly and not through a federation: silos' released labels, their plurality, and personal models (logistic "
        f"regression) trained on private records and the consensus, of the first {sizes.models} silos. dp-linear "
        f"labels all of the public set for one price; {sizes.public:,} of its examples are measured. Where each label "
        f"costs, {sizes.paid:,} are asked, in favour of those mechanisms. Infinite "
        f"epsilon is no noise (dp-linear, dp-sgd: epsilon {UNPROTECTED:g}).\n\n"
    )


def notes() -> str:
    """The paper's own setting, with its price."""
    mechanism = PAPERS_XOR(10)
    release = 2 * PAPERS_PUBLIC * mechanism.theta
    composed = quick_epsilon(repeated(mechanism.event(PAPERS_PUBLIC), PAPERS_ROUNDS), DELTA)
    flipped = 1 / (1 + math.exp(mechanism.theta))
    return (
        "\n## The XOR mechanism at the paper's settings\n\n"
        f"s = {PAPERS_BITS:,} bits, epsilon {PAPERS_EPSILON:g} a round, {PAPERS_ROUNDS} rounds of {PAPERS_PUBLIC:,} "
        f"labels (arXiv:2310.05696): theta = {mechanism.theta:.3g} a bit. No sensitivity below 2|U| bits is proven, so "
        f"a release costs epsilon {release:.3g} in the worst case, all of them {PAPERS_ROUNDS * release:,.0f}, or "
        f"{composed:.3g} at delta {DELTA:g} composed. If s held, it would be {PAPERS_EPSILON * PAPERS_ROUNDS:g} for "
        f"all rounds. A bit is flipped with probability {flipped:.7f}: noise. The paper reports test accuracy .80 at "
        "this setting, which is what local training alone gives.\n"
    )
