"""``fedct silo metrics``: what ``fedct silo status`` shows, for Prometheus."""

import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from fedct_flwr.cli.certificates import days_left
from fedct_flwr.cli.metrics import Sample, show
from fedct_flwr.cli.silo.folder import Folder, FolderOption, silo_file
from fedct_flwr.cli.silo.status_report import facts, study_of
from fedct_flwr.config import SiloConfig
from fedct_flwr.hospital.log_entry import Event, read_entries
from fedct_flwr.types import ConfigError

_UNITS: Final = {"privacy": "record", "sums": "silo"}
"""Whom the budgets of ``status_report.facts`` protect."""


def metrics(
    folder: Folder = None,
    folder_option: FolderOption = None,
) -> None:
    """Give Prometheus numbers: rounds, refusals, limits left, last exchange, certificate days, disk. Never data.

    Of limits and privacy budgets: those of this study, and those over all studies of its records.

    It reads the silo's folder, in a process of its own. A timer can write it for node_exporter's textfile collector.
    """
    config = SiloConfig.read_toml(silo_file(folder, folder_option))
    show(lambda: samples(config))


def samples(config: SiloConfig) -> Iterator[Sample]:
    """All numbers of a silo."""
    said = facts(config, study_of(config))
    agent, of = said["agent"], {"silo": config.silo}
    yield "agent_up", "1 if the agent's process is there", of, agent["alive"]
    yield "agent_healthy", "1 if the agent is in contact with the coordinator", of, agent["healthy"]
    yield "agent_stale", "1 if the records' file has changed since the agent read it", of, agent["stale"]
    yield "agent_working_seconds", "Since the agent began with its question; 0 if it has none", of, agent["worked"]
    yield "agent_missed_rounds", "Rounds of the last run that passed without this silo", of, agent["missed"]
    heard = agent["silence"] if agent["link"] else None
    yield "coordinator_silence_seconds", "Since the coordinator last answered", of, heard
    yield "approved", "1 if labels may leave", of, said["approval"]["state"] == "approved"
    yield "log_readable", "1 if the egress log can be read", of, said["log"]["readable"]
    yield "log_lines", "Lines of the egress log", of, said["log"]["lines"]
    for what in ("rounds", "labels", "bytes"):
        used, limit = said["used"][what], said["limits"][what]
        yield f"{what}_used", f"{what.capitalize()} that count towards the limit", of, used
        yield f"{what}_left", f"{what.capitalize()} left of the limit", of, max(0, limit - used)
    yield from _budgets(said, of)
    if "records" in said:
        yield from _over_studies(said["records"], of)
    if said["log"]["readable"]:
        refused = Counter(entry.reason for entry in read_entries(config.state) if entry.event is Event.REFUSED)
        for reason, number in sorted(refused.items()):
            yield "refusals", "Questions that were refused, by reason", {**of, "reason": reason}, number
    for name, path in (
        ("client", config.connection.client_certificate),
        ("authority", config.connection.ca_certificate),
    ):
        try:
            days = days_left(path)
        except ConfigError:
            continue
        yield "certificate_days", "Days until a certificate expires", {**of, "certificate": name}, days
    yield "disk_free_bytes", "Free bytes of the disk with the silo's state", of, shutil.disk_usage(config.state).free


def _budgets(said: Mapping[str, Any], of: dict[str, str]) -> Iterator[Sample]:
    """Epsilon of this study: spent and left are left out where the ledger cannot be read."""
    for name, unit in _UNITS.items():
        if name in said:
            labels = {**of, "unit": unit}
            usable = said[name]["spent"] is not None and not said[name]["ahead"]
            yield "ledger_readable", "1 if the privacy ledger can be read, and charged by this clock", labels, usable
            yield "epsilon_spent", "Epsilon that this study has spent, for each unit", labels, said[name]["spent"]
            yield "epsilon_left", "Epsilon left of this study's budget, for each unit", labels, said[name]["left"]


def _over_studies(records: Mapping[str, Any], of: dict[str, str]) -> Iterator[Sample]:
    """Limits over all studies of these records; what is used is left out where that cannot be told."""
    used, privacy = records["used"], records.get("privacy")
    readable = used is not None and (privacy is None or privacy["spent"] is not None)
    yield "records_readable", "1 if what all studies of these records have used can be told", of, readable
    for what, limit in records["limits"].items():
        counted = None if used is None else used[what]
        left = None if counted is None else max(0, limit - counted)
        name = what.capitalize()
        yield f"records_{what}_used", f"{name} that count towards the limit over all studies", of, counted
        yield f"records_{what}_left", f"{name} left of the limit over all studies", of, left
    if privacy:
        yield "records_epsilon_spent", "Epsilon that all studies have spent, for each record", of, privacy["spent"]
        yield "records_epsilon_left", "Epsilon left of the budget over all studies", of, privacy["left"]
