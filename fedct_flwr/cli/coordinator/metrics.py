"""``fedct coordinator metrics``: what ``status`` shows and how the latest run goes, for Prometheus."""

from collections import Counter
from collections.abc import Iterator

from fedct_flwr.cli.coordinator.folder import CoordinatorFolder, Folder
from fedct_flwr.cli.coordinator.status import facts
from fedct_flwr.cli.metrics import Sample, show
from fedct_flwr.runs.run_folder import RunFolder


def metrics(folder: Folder) -> None:
    """Give Prometheus numbers: silos, rounds, absences by reason, certificate days, database, disk.

    A timer can write it for node_exporter's textfile collector.
    """
    coordinator = CoordinatorFolder.open(folder)
    show(lambda: samples(coordinator))


def samples(coordinator: CoordinatorFolder) -> Iterator[Sample]:
    """All numbers of a coordinator."""
    said = facts(coordinator)
    yield "superlink_up", "1 if the SuperLink answers", {}, said["reachable"]
    for silo in said["silos"]:
        of = {"silo": silo["silo"]}
        yield "silo_online", "1 if the SuperLink counts the silo as there", of, silo["state"] == "online"
        yield "silo_silence_seconds", "Since the SuperLink last heard from the silo", of, silo["seconds"]
        yield "silo_certificate_days", "Days that the silo's certificate lasts", of, silo["certificate_days"]
    for name, days in said["certificate_days"].items():
        yield "certificate_days", "Days until a certificate expires", {"certificate": name}, days
    yield "database_bytes", "Size of the SuperLink's database", {}, said["database_bytes"]
    yield "disk_free_bytes", "Free bytes of the coordinator's disk", {}, said["free_bytes"]
    runs = list(coordinator.runs.glob("*/rounds.jsonl"))
    if not runs:
        return
    latest = max(runs, key=lambda path: path.stat().st_mtime).parent
    rounds = RunFolder(latest).rounds()
    yield "run_rounds", "Rounds of the latest run that have ended", {"run": latest.name}, len(rounds)
    absent = Counter((silo, reason) for one in rounds for silo, reason in one.get("absent", {}).items())
    for (silo, reason), number in sorted(absent.items()):
        labels = {"run": latest.name, "silo": silo, "reason": reason}
        yield "run_absences", "Rounds of the latest run in which a silo did not count", labels, number
