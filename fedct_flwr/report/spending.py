"""What of its privacy budget a run has spent: by the silos' ledgers, by its result, or by its settings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedct_flwr.config import STUDY, RunConfig
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.types import ConfigError, FedctError, SiloName


@dataclass(frozen=True)
class Spent:
    """``epsilon`` at ``delta``, of a budget of ``budget`` if there is one, for each ``unit`` of ``whom``."""

    whom: str
    unit: str
    epsilon: float
    delta: float
    budget: float | None
    source: str


@dataclass(frozen=True)
class Spending:
    """``note`` says in a sentence what the figures are, or why there are none."""

    note: str
    rows: tuple[Spent, ...] = ()


def spending(
    folder: RunFolder, settings: Mapping[str, Any], silos: Sequence[SiloName], result: Mapping[str, Any]
) -> Spending:
    """What a run that has ended has spent. Whatever is wrong with a ledger is said in the note."""
    cost = result.get("privacy")
    if isinstance(cost, dict) and "epsilon" in cost and "delta" in cost:
        try:
            return _of_result(cost)
        except (TypeError, ValueError, OverflowError):
            return Spending("What was spent is not to be read from the run's result.")
    try:
        config = RunConfig.from_flower(settings)
    except ConfigError:
        return Spending("The settings of this run are not those of this version: see its privacy sheet.")
    if config.algorithm == "dp-fedavg":
        row = Spent("all silos", "silo", config.epsilon, config.delta, config.epsilon, "settings")
        return Spending("The noise is measured for this epsilon over all rounds that the settings plan.", (row,))
    if config.protection == "none":
        return Spending("No protection: no noise was added, and there is no formal guarantee.")
    if config.data == STUDY:
        return Spending("Real silos keep their ledgers to themselves: ask each for its own privacy sheet.")
    return _of_ledgers(folder, config, silos)


def _of_result(cost: Mapping[str, Any]) -> Spending:
    unit, where = str(cost.get("unit", "")), str(cost.get("where", ""))
    row = Spent("all silos", unit, float(cost["epsilon"]), float(cost["delta"]), None, str(cost.get("accountant", "")))
    whom = "from the coordinator too" if where == "silo" else "not from the coordinator"
    return Spending(f"Noise added by the {where} hides each {unit}, {whom}.", (row,))


def _of_ledgers(folder: RunFolder, config: RunConfig, silos: Sequence[SiloName]) -> Spending:
    try:
        # Need the extra privacy, which a report of other runs does not.
        from fedct_flwr.privacy.ledger import Ledger
        from fedct_flwr.silo.release import account

        num_public = int(folder.read_json("config.json").get("num_public", 0))
        privacy = config.privacy_settings(config.asked_about(num_public))
        accounts = [account(Ledger(folder.silo_privacy(silo)), silo, config.study, privacy) for silo in silos]
    except ModuleNotFoundError:
        return Spending("What was spent is in the silos' ledgers, which are read with the extra 'privacy'.")
    except (FedctError, OSError, ValueError):
        return Spending("The silos' ledgers in the run folder cannot be read.")
    rows = [Spent(a.silo, "record", a.spent, a.delta, a.epsilon, a.accountant) for a in accounts]
    note = "Recomputed from the silos' ledgers; noise of a simulation follows from a seed and protects nobody."
    return Spending(note, tuple(rows))
