"""What of its privacy budget a run has spent: by the silos' ledgers, by its result, or by its settings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedct_flwr.algorithms.table import find_algorithm
from fedct_flwr.config import STUDY, RunConfig
from fedct_flwr.privacy.budget import PrivacyUnit
from fedct_flwr.privacy.spending import ALL_SILOS, SILOS_TOGETHER, Spending
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.types import ConfigError, FedctError, SiloName


@dataclass(frozen=True)
class Books:
    """``note`` says in a sentence what the figures are, or why there are none."""

    note: str
    rows: tuple[Spending, ...] = ()


def spending(
    folder: RunFolder, settings: Mapping[str, Any], silos: Sequence[SiloName], result: Mapping[str, Any]
) -> Books:
    """What a run that has ended has spent. Whatever is wrong with a ledger is said in the note."""
    cost = result.get("privacy")
    if isinstance(cost, dict) and "epsilon" in cost and "delta" in cost:
        try:
            return _of_result(Spending.from_result(cost))
        except ValueError:
            return Books("What was spent is not to be read from the run's result.")
    try:
        config = RunConfig.from_flower(settings)
    except ConfigError:
        return Books("The settings of this run are not those of this version: see its privacy sheet.")
    if find_algorithm(config).kind is None and config.method.protects_silos:
        row = Spending(
            whom=ALL_SILOS,
            unit=PrivacyUnit.SILO,
            epsilon=config.epsilon,
            delta=config.delta,
            budget=config.epsilon,
            accountant="settings",
        )
        return Books("The noise is measured for this epsilon over all rounds that the settings plan.", (row,))
    if config.protection == "none" and not config.method.trains_together:
        return Books("No protection: no noise was added, and there is no formal guarantee.")
    if config.data == STUDY:
        return Books("Real silos keep their ledgers to themselves: ask each for its own privacy sheet.")
    return _of_ledgers(folder, config, silos)


def _of_result(spent: Spending) -> Books:
    if spent.where == SILOS_TOGETHER:
        return Books(
            f"Noise added by the silos, in shares, hides each {spent.protects}, from the coordinator too.", (spent,)
        )
    whom = "not from the coordinator" if spent.where == "coordinator" else "from the coordinator too"
    return Books(f"Noise added by the {spent.where} hides each {spent.protects}, {whom}.", (spent,))


def _of_ledgers(folder: RunFolder, config: RunConfig, silos: Sequence[SiloName]) -> Books:
    try:
        # Need the extra privacy, which a report of other runs does not.
        from fedct_flwr.privacy.ledger import Ledger
        from fedct_flwr.silo.release import account

        num_public = int(folder.read_json("config.json").get("num_public", 0))
        privacy = config.privacy_settings(config.asked_about(num_public))
        accounts = [account(Ledger(folder.silo_privacy(silo)), silo, config.study, privacy) for silo in silos]
    except ModuleNotFoundError:
        return Books("What was spent is in the silos' ledgers, which are read with the extra 'privacy'.")
    except (FedctError, OSError, ValueError):
        return Books("The silos' ledgers in the run folder cannot be read.")
    note = "Recomputed from the silos' ledgers; noise of a simulation follows from a seed and protects nobody."
    return Books(note, tuple(accounts))
