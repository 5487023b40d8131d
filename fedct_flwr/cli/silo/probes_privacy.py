"""Whether what ``[privacy]`` and ``sum-epsilon`` under ``[policy]`` promise can be kept here."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from fedct_flwr.cli.silo.findings import Finding, Silo, bad, good, warning
from fedct_flwr.config import SiloConfig
from fedct_flwr.types import FedctError

if TYPE_CHECKING:
    # Needs the extra privacy.
    from fedct_flwr.privacy.spending import Spending


def privacy(silo: Silo) -> Iterator[Finding]:
    """Extras, budgets, labeler and ledger; nothing where nothing is promised."""
    config = silo.config
    if config.promises:
        yield from _of_records(silo)
    if config.policy.sum_epsilon:
        yield from _of_sums(silo)


def _of_records(silo: Silo) -> Iterator[Finding]:
    config, agreed = silo.config, silo.study
    promised = config.privacy
    from fedct_flwr.labelers.protect import check_all_installed, labeler_for

    try:
        check_all_installed(config)
    except FedctError as error:
        # What is missing is this program's to know, and tells nothing of the records.
        yield bad(f"privacy: {error}", "install the extra where the agent runs")
        return
    from fedct_flwr.hospital.adding import check_sums
    from fedct_flwr.privacy.budget import budget_of
    from fedct_flwr.silo.joint import together_in
    from fedct_flwr.silo.release import account_of

    size = silo.records.size
    if budget_of(promised).weakness(size):
        yield warning(
            f"privacy: delta is {promised.delta:g}, which is not below one divided by the number of records",
            "set a smaller delta under [privacy]: as it is, publishing a record at random would pass for private",
        )
    name = "the joint labeler" if config.adds_noise else promised.protection
    try:
        if config.adds_noise:
            check_sums(config, agreed)
            together_in(agreed)
        else:
            labeler_for(promised, config.learner, config.silo, agreed.schema, agreed.public, size)
    except FedctError as error:
        yield bad(
            f"privacy: {name} cannot be set up for these records",
            "correct [privacy] in silo.toml, or what the study asks for; fedct silo check --details says what is wrong",
            error,
        )
        return
    promise = f"{name}, epsilon {promised.epsilon:g}, delta {promised.delta:g} for each record in total"
    yield _spent(silo, account_of, promise)


def _of_sums(silo: Silo) -> Iterator[Finding]:
    from fedct_flwr.labelers.protect import check_extra

    config, agreed = silo.config, silo.study
    policy = config.policy
    try:
        check_extra("privacy", "sum-epsilon")
    except FedctError as error:
        # As above: this program's to know.
        yield bad(f"privacy: {error}", "install the extra where the agent runs")
        return
    from fedct_flwr.hospital.adding import check_sums
    from fedct_flwr.silo.noisy_sum import account_of_sums

    try:
        check_sums(config, agreed)
    except FedctError as error:
        yield bad(
            "privacy: this silo cannot add noise to the study's secure sums",
            "correct [policy] in silo.toml, or ask the coordinator for another [sums] in study.toml; fedct silo check "
            "--details says what is wrong",
            error,
        )
        return
    yield _spent(
        silo,
        account_of_sums,
        f"noise in secure sums, epsilon {policy.sum_epsilon:g}, delta {policy.sum_delta:g} for this silo as a whole in "
        "total",
    )


def _spent(silo: Silo, account: "Callable[[SiloConfig, str], Spending]", promise: str) -> Finding:
    """A promise, and what the ledger says was spent of it."""
    try:
        found = account(silo.config, silo.study.name)
    except FedctError as error:
        return bad("privacy: the ledger cannot be used, so nothing leaves", "fedct privacy-sheet says more", error)
    if found.ahead:
        return bad(
            f"privacy: the clock is earlier than the privacy ledger's last charge ({found.ahead}), so nothing leaves",
            "set the clock; if it is right, and was ahead then: fedct silo approve, which corrects that date and "
            "forgets no charge",
        )
    return good(f"privacy: {promise}; {found.epsilon:.3g} spent")
