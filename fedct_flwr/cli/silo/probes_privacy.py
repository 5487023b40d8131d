"""Whether what ``[privacy]`` promises can be kept here."""

from collections.abc import Iterator

from fedct_flwr.cli.silo.findings import Finding, Silo, bad, good, warning
from fedct_flwr.types import FedctError


def privacy(silo: Silo) -> Iterator[Finding]:
    """Extras, budget, labeler and ledger; nothing where nothing is promised."""
    config, agreed = silo.config, silo.study
    promised = config.privacy
    if not config.promises:
        return
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
    try:
        found = account_of(config, agreed.name)
    except FedctError as error:
        yield bad("privacy: the ledger cannot be used, so nothing leaves", "fedct privacy-sheet says more", error)
        return
    yield good(
        f"privacy: {name}, epsilon {promised.epsilon:g}, delta {promised.delta:g} for each record in "
        f"total; {found.epsilon:.3g} spent"
    )
