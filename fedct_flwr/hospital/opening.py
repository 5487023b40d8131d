"""Opening of a silo's gate: its bounds from the silo's settings and the study, and what other studies have let out."""

from collections.abc import Callable
from functools import partial

from fedct_flwr import privacy
from fedct_flwr.config.silo import SiloConfig
from fedct_flwr.datasets.study_folder import StudyFolder
from fedct_flwr.hospital.adding import adds
from fedct_flwr.hospital.approval import approving_digest, has_bare_labels, kinds_let_out
from fedct_flwr.hospital.egress_log import EgressLog
from fedct_flwr.hospital.gate import Bounds, Gate
from fedct_flwr.hospital.log_entry import spent
from fedct_flwr.hospital.shared_usage import SharedUsage
from fedct_flwr.labelers.labeler import check_all_installed
from fedct_flwr.wire.kinds import HARD
from fedct_flwr.wire.sums import SUMS


def open_gate(config: SiloConfig, study: StudyFolder, log: EgressLog, unchanged: Callable[[], bool]) -> Gate:
    """Open the gate of a silo in a study.

    ``unchanged`` says whether the files behind the approved terms are still those that this process has read; it is
    asked before each decision. Raises ConfigError for secure sums that the policy lets out and the study does not have,
    or not as safe, and LedgerError if what has left in other studies about the same records cannot be told and has a
    limit.
    """
    policy = config.policy
    bounds = Bounds(
        config.silo,
        study.terms,
        policy,
        tuple(kinds_let_out(policy.kinds, study.terms, noisy=policy.sum_epsilon > 0)),
        study.joint,
        approving_digest(config, study),
        config.noisy_kind or ("scores" if policy.adds == ("scores",) else SUMS[HARD.name].policy),
    )
    shared = SharedUsage.of(config, log.key.public_key())
    if shared:
        # All that this silo's folder ever let out, in other studies too.
        shared.settle(spent(log.entries()), bare=has_bare_labels(log.entries()))
        if config.always_answers:
            check_all_installed(config)

            privacy.share(config)
    return Gate(bounds, log, unchanged, shared, partial(adds, config, study, log.key))
