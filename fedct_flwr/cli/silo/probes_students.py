"""Whether students can be taught here, where a study asks for their votes (FedKT)."""

from collections.abc import Iterator

import numpy as np

from fedct_flwr.cli.silo.findings import HIDDEN_BELOW, Finding, Silo, bad, good, warning
from fedct_flwr.kinds import kind_in_policy
from fedct_flwr.types import FedctError


def students(silo: Silo) -> Iterator[Finding]:
    """Records enough for all teachers, and a learner for them; nothing where no votes may leave."""
    config, agreed, records = silo.config, silo.study, silo.records
    if all(kind_in_policy(name).own_model for name in config.policy.kinds):
        return
    from fedct_flwr.labelers.students import transfer_for

    noisy = config.privacy.enabled
    number = config.transfer.most_students(noisy=noisy)
    # Those that a silo keeps back for its own test teach nobody.
    taught = records.size - int(config.data.test_fraction * records.size)
    try:
        transfer_for(
            config.transfer,
            config.privacy,
            config.learner,
            config.silo,
            agreed.schema,
            agreed.public,
            records.X[:taught],
            number,
        )
    except FedctError as error:
        # How many records there are may be the reason, and is not for others.
        yield bad(
            f"students: {number} cannot be taught on these records",
            "set fewer teachers or partitions under [transfer] in silo.toml, or correct [privacy] and [learner]; fedct "
            "silo check --details says what is wrong",
            error,
        )
        return
    teachers = config.transfer.fitting_teachers(number, taught, noisy=noisy)
    counts = np.bincount(records.y, minlength=len(agreed.schema.classes))
    # Numbers that follow from how many records there are stay in here, and small counts hidden.
    if counts.min() < max(teachers, HIDDEN_BELOW):
        yield warning(
            f"students: {number} can be taught, but some of their teachers may have no record of some class",
            "set fewer teachers under [transfer] in silo.toml, if that class matters: they will never name it",
        )
    else:
        yield good(f"students: {number} can be taught on these records")
