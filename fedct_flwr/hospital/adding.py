"""A real silo's part in secure sums: it adds what it was asked for, once, as its egress log proves.

A sum is of a question whose answer is ready: one that was admitted, trained for and answered with "ready" under the
approved terms. The line that uses it up is in the log before the silo's numbers leave, so neither another process nor
another session adds the same question again: two sums of one question can open a summand.
"""

from collections.abc import Callable, Set
from dataclasses import dataclass

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from fedct_flwr import drawing
from fedct_flwr.config.silo import SiloConfig
from fedct_flwr.datasets.study_folder import StudyFolder
from fedct_flwr.labelers.labeler import check_all_installed
from fedct_flwr.secure_sum.silo import SumClient
from fedct_flwr.secure_sum.terms import Fault, Shape, SumRefused
from fedct_flwr.silo.site import FolderState
from fedct_flwr.silo.summing import Ready
from fedct_flwr.types import ConfigError


def check_sums(config: SiloConfig, study: StudyFolder) -> None:
    """Raise ConfigError for packages that are missing, for sums that the study lacks or that protect too little.

    And for labels without a budget.
    """
    check_all_installed(config)
    config.privacy.after(config.set_aside(study.config))
    added = config.policy.adds
    if not added:
        return
    terms, policy = study.sums, config.policy
    plans = [kind for kind in (config.noisy_kind, "scores" * config.scores) if kind]
    priced = {table: getattr(study.config, table) for table in plans}
    if terms is None or None in priced.values():
        kind = added[0] if terms is None else next(table for table, plan in priced.items() if plan is None)
        raise ConfigError(
            f"kinds under [policy] has {kind!r}, and the study has no [{kind if terms else 'sums'}] in study.toml: ask "
            f"the coordinator for it, or leave {kind!r} out"
        )
    epsilon, privacy = sum(part.epsilon for part in priced.values()), config.privacy
    delta = max((part.delta for part in priced.values()), default=0.0)
    if epsilon > privacy.epsilon or delta > privacy.delta:
        raise ConfigError(
            f"[{'] and ['.join(priced)}] in study.toml: each record pays epsilon {epsilon:g} at delta {delta:g}, and "
            f"[privacy] in silo.toml allows {privacy.epsilon:g} at {privacy.delta:g}: raise that, or agree on less"
        )
    if {"count", "scores"} & priced.keys():
        drawing.check_counts(study.config)
    if config.silo not in terms.keys:
        raise ConfigError(f"[sums] in study.toml has no key of silo {config.silo}: send the coordinator egress.pub")
    if terms.min_summands < policy.min_summands or terms.may_collude < policy.may_collude:
        raise ConfigError(
            f"the study opens sums of {terms.min_summands} silos of which {terms.may_collude} may collude, and "
            f"[policy] asks for {policy.min_summands} and {policy.may_collude}: agree on them with the coordinator"
        )


@dataclass(frozen=True)
class Once:
    """A real silo's summands that are ready and in no sum yet. ``charge`` writes that a question is used up, or raises.

    ``answered`` and ``added`` are SHA-256 of questions, as the log tells them by then.
    """

    ready: Ready
    answered: Set[str]
    added: Set[str]
    charge: Callable[[Shape], None]

    def vector(self, shape: Shape) -> NDArray[np.uint64]:
        """The silo's numbers. Raises SumRefused (SHAPE, REPEATED)."""
        subject = shape.subject.hex()
        if subject in self.added:
            raise SumRefused(Fault.REPEATED)
        if subject not in self.answered:
            raise SumRefused(Fault.SHAPE)
        return self.ready.vector(shape)


def adds(
    config: SiloConfig,
    study: StudyFolder,
    key: Ed25519PrivateKey,
    answered: Set[str],
    added: Set[str],
    put_down: Callable[[Shape], None],
) -> tuple[SumClient, Once] | None:
    """A silo's part in the sums of a study; None where its policy lets none out. Raises ConfigError."""
    check_sums(config, study)
    if study.sums is None or not config.policy.adds:
        return None
    try:
        summand = SumClient(config.silo, key, study.sums)
    except SumRefused:
        raise ConfigError(
            f"the key of silo {config.silo} under [sums] in study.toml is not that of {config.egress_key}: send the "
            "coordinator the public half again"
        ) from None
    return summand, Once(Ready(FolderState(config.state)), answered, added, put_down)
