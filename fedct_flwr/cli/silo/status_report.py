"""How a silo stands: its agent, its approval, what has left and what is left of the limits. Reads, changes nothing.

``fedct silo metrics`` gives the same to Prometheus.
"""

import math
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from rich.markup import escape
from rich.table import Table

from fedct_flwr import silo
from fedct_flwr.cli.certificates import days_of
from fedct_flwr.cli.output import print_metrics
from fedct_flwr.cli.silo.folder import Folder, silo_file
from fedct_flwr.config.silo import AppSilo, SiloConfig, SiloFolder
from fedct_flwr.datasets.inspection.labels_fit import ConsensusFit
from fedct_flwr.datasets.study_folder import StudyFolder, read_study
from fedct_flwr.hospital import agent_status
from fedct_flwr.hospital.approval import in_force, kind_in_policy, promises_of
from fedct_flwr.hospital.latest_state import NOT_APPROVED, Approval, approval_state
from fedct_flwr.hospital.link import LinkStatus, span
from fedct_flwr.hospital.log_entry import TOTALS, Event, LogEntry, Used, read_entries, spent
from fedct_flwr.hospital.shared_usage import SharedUsage, spent_epsilon
from fedct_flwr.report.kind_words import words_of
from fedct_flwr.text.printable import count
from fedct_flwr.types import FedctError, Refusal
from fedct_flwr.wire.sums import RecordSum

FEW_BYTES: Final = 100_000_000
"""Free bytes of a disk that is nearly full."""
_LAST_REFUSALS: Final = 5
_LONG_SECONDS: Final = 60.0
"""An agent that trains for longer says for how long, to tell a long training from a stuck one."""
_DATED: Final = (Approval.APPROVED, Approval.CHANGED)
_T = TypeVar("_T")


def study_of(config: SiloConfig) -> StudyFolder | None:
    """The study, or None if it cannot be read."""
    return _told(lambda: read_study(config.study))


def _told(read: Callable[[], _T]) -> _T | None:
    """Result of reading, None where it raises one of our errors: other commands explain them."""
    try:
        return read()
    except FedctError:
        return None


def report_of(config: SiloFolder) -> dict[str, Any]:
    """All that there is to say of a silo that co-trains, or of one with an app."""
    if isinstance(config, SiloConfig):
        return facts(config, study_of(config))
    return _app_facts(config) if isinstance(config, AppSilo) else {}


def _app_facts(config: AppSilo) -> dict[str, Any]:
    logged = _told(lambda: list(read_entries(config.state)))
    entries = logged or []
    admitted = [entry for entry in entries if entry.event is Event.ADMITTED]
    first = {entry.run: entry.time[:10] for entry in reversed(admitted)}
    today = datetime.now(UTC).date().isoformat()
    last = admitted[-1].run if admitted else 0
    runs = sum(day == today for day in first.values())
    return {
        **_common(config, None, logged),
        "app": config.app.client,
        "used": {"runs_today": runs, "messages_of_last_run": sum(entry.run == last for entry in admitted)},
        "limits": {"runs_today": config.app.runs_a_day, "messages_of_last_run": config.app.messages_a_run},
        "sent": {"replies": sum(entry.event is Event.RELEASED for entry in entries), "bytes": spent(entries).bytes},
    }


def facts(config: SiloConfig, study: StudyFolder | None) -> dict[str, Any]:
    """All that there is to say, as JSON takes it; ``study`` is None if it cannot be read."""
    logged = _told(lambda: list(read_entries(config.state)))
    entries = logged or []
    public = study.public.fingerprint.hex() if study else ""
    used = spent(entry for entry in entries if study and (entry.study, entry.public) == (study.name, public))
    policy = config.policy
    return {
        **_common(config, study, logged),
        "study": study.name if study else None,
        "public": public or None,
        "kinds": list(policy.kinds),
        **_limits(policy, used),
        "at_once": {"consensus_weight": policy.max_consensus_weight},
        **({"records": _over_studies(config, folder)} if (folder := config.records.folder) else {}),
        **dict(_budgets(config, study)),
        "judgment": _judgment(config, study),
    }


def _common(config: SiloFolder, study: StudyFolder | None, logged: list[LogEntry] | None) -> dict[str, Any]:
    """The part that each silo has; ``logged`` is None for a log that cannot be read."""
    agent, entries = agent_status.read_agent(config), logged or []
    refused = [entry for entry in entries if entry.event is Event.REFUSED]
    return {
        "silo": config.silo,
        "approval": _approval(config, study, entries),
        "agent": {
            **asdict(agent.status),
            "alive": agent.alive,
            "healthy": agent.healthy,
            "trouble": agent.trouble,
            "hangs": agent.hangs,
            "link": asdict(agent.link) if agent.link else None,
            "silence": agent.silence,
            "worked": agent.worked,
        },
        "log": {"readable": logged is not None, "lines": len(entries)},
        # Of the disk with the state folder, or with the folder where that is missing.
        "free_bytes": shutil.disk_usage(next(p for p in (config.state, *config.state.parents) if p.exists())).free,
        "certificate_days": _certificate_days(config),
        "refused": Counter(entry.reason for entry in refused),
        "refusals": [
            {"time": entry.time, "round": entry.round, "reason": _words(entry.reason)}
            for entry in refused[-_LAST_REFUSALS:]
        ],
    }


def _certificate_days(config: SiloFolder) -> dict[str, int]:
    """Of those that this process can read: an agent's container has none."""
    paths = {"client": config.connection.client_certificate, "authority": config.connection.ca_certificate}
    return {name: days for name, path in paths.items() if (days := days_of(path)) is not None}


def _limits(limits: object, used: Used | None) -> dict[str, dict[str, int] | None]:
    return {
        "used": None if used is None else {cap.name: cap.of(used) for cap in TOTALS.values()},
        "limits": {cap.name: getattr(limits, field) for field, cap in TOTALS.items()},
    }


def _approval(config: SiloFolder, study: StudyFolder | None, entries: list[LogEntry]) -> dict[str, str]:
    found, line = approval_state(config, study, entries), in_force(entries)
    return {"state": found, **({"time": line.time} if line and found in _DATED else {})}


def _judgment(config: SiloConfig, study: StudyFolder | None) -> dict[str, Any] | None:
    """The silo's judgment of the consensus, for itself alone; None where there is none that can be read."""
    found = _told(lambda: silo.Judgment.read(silo.judgment_of(config, study.name))) if study else None
    return silo.facts_of(found) if found else None


def _over_studies(config: SiloConfig, folder: Path) -> dict[str, Any]:
    """Limits and budget that several studies share; None for what is used of them, if that cannot be told."""
    usage = SharedUsage.of(config)
    used, studies = (_told(usage.spent) if usage else (Used(), 0)) or (None, 0)
    epsilon, records = _told(partial(spent_epsilon, config)), config.records
    bounded = None if epsilon is None else math.isfinite(epsilon)
    return {
        # Studies that name it each from their own folder on show the same.
        "folder": str(folder.resolve()),
        "studies": studies,
        **_limits(records, used),
        "privacy": {**_budget_of(records.epsilon, records.delta, epsilon if bounded else None), "bounded": bounded},
    }


def _budget_of(epsilon: float, delta: float, spent_: float | None) -> dict[str, float | None]:
    """A budget of ``silo.toml``; ``spent`` is None if what was spent cannot be told."""
    left = None if spent_ is None else max(0.0, epsilon - spent_)
    return {"epsilon": epsilon, "delta": delta, "spent": spent_, "left": left}


def _budgets(config: SiloConfig, study: StudyFolder | None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each promise's name (``privacy``: for each record, ``sums``: for the silo) with its budget and what is spent.

    Amounts are None without a study, or where the ledger cannot be read.
    """
    for name, promise in promises_of(config).items():
        found = _told(partial(promise.spending, study.name)) if study else None
        yield (
            name,
            {
                "protection": promise.kept_by,
                **_budget_of(promise.epsilon, promise.delta, found.asked if found else None),
                **{key: getattr(found, key, None) for key in ("charges", "others", "together")},
            },
        )


def _words(reason: str) -> str:
    return Refusal[reason].sentence if reason in Refusal.__members__ else reason


def table(report: dict[str, Any]) -> Table:
    """The facts for people."""
    result = Table.grid(padding=(0, 2))
    approval, agent, kinds = report["approval"], report["agent"], [*map(kind_in_policy, report.get("kinds", ()))]
    result.add_row("silo", f"[bold]{escape(report['silo'])}[/]")
    if "app" in report:
        result.add_row("app", escape(report["app"]))
    else:
        result.add_row("study", escape(report["study"] or "cannot be read: fedct silo check"))
    wrong = NOT_APPROVED.get(approval["state"])
    style = "bold red" if approval["state"] == Approval.LOST else "yellow"
    result.add_row("approval", f"[{style}]{wrong}[/]" if wrong else f"[green]approved[/] on {_when(approval['time'])}")
    result.add_row("agent", _agent(agent))
    if agent["alive"] and agent["stale"]:
        result.add_row("records", f"[yellow]{agent_status.STALE}[/]")
    if agent["link"]:
        link = LinkStatus(**agent["link"])
        answered = f"[green]answered {span(link.silence)} ago[/]"
        result.add_row("coordinator", f"[bold red]{escape(link.sentence)}[/]" if link.silent else answered)
    if agent["asked"]:
        result.add_row("last question", f"{span(time.time() - agent['asked'])} ago")
    if report.get("kinds", ["hard"]) != ["hard"]:
        result.add_row("may leave", "; ".join(words_of(kind).in_short for kind in kinds))
    for name, limit in report["limits"].items():
        noisy = name == "labels" and any(isinstance(kind, RecordSum) for kind in kinds)
        result.add_row("numbers" if noisy else name.replace("_", " "), _used(report["used"][name], limit))
    for line in _shared(report["records"]) if "records" in report else ():
        result.add_row("all studies", line)
    for of in dict.fromkeys(kind.of for kind in kinds if kind.for_numbers):
        result.add_row("at once", f"others' {of} count {report['at_once']['consensus_weight']:g} at most")
    for budget, of in (("privacy", "on these records"), ("sums", "by sums of this silo")):
        if budget in report:
            result.add_row("privacy", _budget(report[budget]))
            if others := report[budget]["others"]:
                together = f"epsilon {report[budget]['together']:.3g} spent {of}"
                result.add_row("all studies", f"{together}, with {count(others, 'other')}")
    if report.get("judgment"):
        for name, line in _judged(report["judgment"]):
            result.add_row(name, escape(line))
    if "sent" in report:
        result.add_row("sent", f"{report['sent']['replies']:,} replies, {report['sent']['bytes']:,} bytes")
    log = f"lines: {report['log']['lines']:,}" if report["log"]["readable"] else "[bold red]cannot be read[/]"
    result.add_row("log", f"{log}; proof: fedct silo verify")
    if report["free_bytes"] < FEW_BYTES:
        result.add_row("disk", f"[bold red]{report['free_bytes'] / 1e6:,.0f} MB free: make room[/]")
    for number, refusal in enumerate(report["refusals"]):
        round_ = f", round {refusal['round']}" if refusal["round"] else ""
        result.add_row(
            "refused" if not number else "", f"{_when(refusal['time'])}{round_}: {escape(refusal['reason'])}"
        )
    return result


def _used(used: int, limit: int) -> str:
    return f"{used:,} of {limit:,} used, {limit - used:,} left" if used < limit else f"[yellow]{used:,}: the limit[/]"


def _shared(records: dict[str, Any]) -> Iterator[str]:
    """The limits over all studies."""
    if records["used"] is None:
        yield "[bold red]what has left cannot be told, so nothing leaves[/]"
        return
    for name, limit in records["limits"].items():
        yield f"{name}: {_used(records['used'][name], limit)}"
    privacy = records["privacy"]
    if privacy["bounded"] is False:
        yield "[yellow]epsilon: no bound, as labels have left without a protection[/]"
    elif privacy["spent"] is not None:
        yield _epsilon(privacy) if privacy["epsilon"] else f"epsilon {privacy['spent']:.3g} spent"
    elif privacy["epsilon"]:
        yield "[bold red]epsilon: what is spent cannot be told, so nothing leaves[/]"
    yield f"{count(records['studies'], 'silo folder')} counted in {escape(records['folder'])}"


def _epsilon(budget: dict[str, Any]) -> str:
    return f"epsilon {budget['spent']:.3g} of {budget['epsilon']:g} spent, {budget['left']:.3g} left"


def _judged(judgment: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Which learner and which model the silo uses, and why."""
    if judgment["learner"]:
        yield "learner", f"{judgment['learner']}, chosen by your own records"
    if judgment["model"]:
        model = "your own" if judgment["model"] == "own" else "co-trained"
        yield "model", f"{model}; {judgment['why']}"
    if judgment["chances"]:
        yield "chances", judgment["chances"]
    if (fit := judgment["labels_fit"]) and (words := ConsensusFit(**fit).words):
        yield "labels", words
    if test := judgment["own_test"]:
        gain = f"balanced accuracy {test['gain']:+.3f} against your own model alone (p = {test['p']:.2g})"
        yield "own test", f"{test['verdict']}: {gain}"


def _agent(agent: dict[str, Any]) -> str:
    if agent["trouble"]:
        message, _, fix = agent["trouble"].partition(": ")
        style = "bold red" if agent["hangs"] or agent["shut"] else "yellow"
        process = f" (process {agent['pid']})" if agent["alive"] else ""
        return f"[{style}]{escape(message)}[/]{process}: {escape(fix)}"
    since = f", for {span(agent['worked'])}" if agent["worked"] >= _LONG_SECONDS else ""
    doing = f"trains, round {agent['round']}{since}" if agent["working"] else "waits for questions"
    if agent["link"] and LinkStatus(**agent["link"]).silent and not agent["working"]:
        return f"[yellow]at work, and cannot be asked anything[/] (process {agent['pid']})"
    return f"[green]{doing}[/] (process {agent['pid']})"


def _budget(privacy: dict[str, Any]) -> str:
    if privacy["spent"] is None:
        message = "[bold red]the ledger cannot be read, so nothing leaves[/]: fedct privacy-sheet"
    else:
        message = _epsilon(privacy)
    return f"{privacy['protection']}: {message}"


def _when(time_: str) -> str:
    """``2026-11-21T14:00:00.123+00:00`` for people."""
    return escape(f"{time_[:10]} {time_[11:19]} UTC") if time_ else ""


def metrics(
    folder: Folder = None,
) -> None:
    """Give Prometheus the numbers of fedct silo status: limits, budgets, contact, certificates, disk. Never data.

    A timer can write them for node_exporter's textfile collector.
    """
    config = SiloFolder.read_toml(silo_file(folder))

    def document() -> dict[str, Any]:
        report = report_of(config)
        # The silo's judgment is for its people alone; the last refusals are counted by reason already.
        return {name: value for name, value in report.items() if name not in ("judgment", "refusals")}

    print_metrics(document)
