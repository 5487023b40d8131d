"""Promises of differential privacy by a real silo, in the words of its privacy sheet and of the page to approve."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fedct_flwr import privacy, silo
from fedct_flwr.config.silo import SiloConfig
from fedct_flwr.datasets.study_folder import StudyFolder
from fedct_flwr.hospital.adding import check_sums
from fedct_flwr.hospital.approval import bare_labels, covers_records, covers_silo, had_scores, promises_of
from fedct_flwr.hospital.log_entry import LogEntry
from fedct_flwr.privacy.sheet import PermittedQuestions, Sheet
from fedct_flwr.types import ConfigError


def sheets_of(config: SiloConfig, study: StudyFolder, entries: Sequence[LogEntry]) -> dict[str, Sheet]:
    """The pages of a silo's promises, by their names in ``promises_of``; one of no promise where there is none.

    ``entries`` are the log's lines so far. Raises ConfigError, LedgerError.
    """
    promises, found = promises_of(config), dict[str, Sheet]()
    metrics = config.policy.metrics or had_scores(entries, study.name)
    accounts = {name: [promise.spending(study.name)] for name, promise in promises.items()}
    if config.policy.sum_epsilon:
        check_sums(config, study)
        if study.sums is None:
            raise ConfigError("sum-epsilon needs [sums] in study.toml, which has none: ask the coordinator for it")
        facts: dict[str, Any] = {"epsilon": promises["sums"].epsilon, "delta": promises["sums"].delta}
        facts |= {"may_collude": study.sums.may_collude}
        facts |= {"honest": privacy.surely_honest(study.sums.min_summands, study.sums.may_collude)}
        facts |= {"unprotected": bare_labels(entries, study.name, covers_silo)}
        found["sums"] = Sheet(
            kind="sums",
            study=study.name,
            protection="noise in shares",
            accounts=accounts["sums"],
            metrics=metrics,
            facts=facts,
        )
    agreed = study.config.scores if config.scores else None
    unprotected: dict[str, Any] = {"unprotected": bare_labels(entries, study.name, covers_records)}
    unprotected |= {"scores_cost": agreed and (agreed.epsilon, agreed.delta)}
    promised = config.privacy
    if config.adds_noise:
        budget = {"epsilon": promised.epsilon, "delta": promised.delta, **unprotected}
        together = silo.together_in(study, config.noisy_kind)
        if together.counts == "count":
            budget["questions"] = privacy.fitting(together.noise, promised.epsilon, promised.delta)
        found["privacy"] = Sheet(
            kind="joint",
            study=study.name,
            protection=config.promised_by,
            accounts=accounts["privacy"],
            metrics=metrics,
            facts={**budget, "together": together},
        )
    elif promised.enabled or not found:
        answers = replace(PermittedQuestions.of(config), values=bool(study.schema.quantity))
        more: dict[str, Any] = {"metrics": metrics, "accounts": accounts.get("privacy", [])}
        found["privacy"] = Sheet.of_labels(study.name, promised, len(study.public), answers, facts=unprotected, **more)
    return found
