"""What a check finds, what it says to do, and what it never says."""

import csv
import http.server
import re
import shutil
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.cli.silo import check as check_module
from fedct_flwr.hospital.approval import approve
from fedct_flwr.privacy.budget import Budget
from fedct_flwr.privacy.events import pure
from fedct_flwr.privacy.ledger import Ledger
from fedct_flwr.silo.release import DATA_SET
from fedct_flwr.types import DataError
from tests.cli.silos import Authority, Fedct, Kit, https_server, make_kit
from tests.silo.labelers import drawing

PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
SECRETS = ("Erika Mustermann", "Zaphod Beeblebrox", "1234567.5", "MRN-998877", "weird-label-9")


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def finding(outcome_text: str, start: str) -> str:
    """The finding that begins so, in one line."""
    (found,) = [line for line in re.sub(r" *\n +", " ", outcome_text).splitlines() if line[2:].startswith(start)]
    return found.rstrip()


def tables(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def write(path: Path, rows: list[list[str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)


# --- a silo that is as it should be


def test_all_is_well(fedct: Fedct, kit: Kit, tmp_path: Path, wording: SnapshotAssertion) -> None:
    authority = Authority.make()
    authority.write(kit.folder / "connection" / "ca.crt")
    with https_server(authority.server(tmp_path)) as port, socket.create_server(("127.0.0.1", 0)) as supernode:
        kit_address(kit, port, supernode.getsockname()[1])
        with kit.log() as log:
            approve(log, kit.config, kit.study)
        outcome = fedct("silo", "check", kit.folder)
    assert outcome.code == 0, outcome.out
    assert not re.search("^[✗!–]", outcome.out, re.MULTILINE), outcome.out
    assert outcome.out == wording
    text = outcome.out
    assert finding(text, "classes") == "✓ classes: 'healthy' 86, 'diseased' 82"
    assert kit.study.public.fingerprint.hex() in text
    assert "228 examples" in text
    assert finding(text, "clock").endswith("within a few seconds")
    assert max(map(len, text.splitlines())) <= 80


def kit_address(kit: Kit, port: int, supernode: int) -> None:
    kit.edit("localhost:1", f"localhost:{port}")
    kit.edit("127.0.0.1:9094", f"127.0.0.1:{supernode}")


def test_offline_makes_no_connection(fedct: Fedct, kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.create_connection", lambda *_, **__: pytest.fail("a connection was made"))
    outcome = fedct("silo", "check", kit.folder, "--offline")
    assert outcome.code == 0
    assert "coordinator:" not in outcome.out


def test_every_probe_is_run_though_others_fail(fedct: Fedct, kit: Kit, wording: SnapshotAssertion) -> None:
    kit.file.write_text("no toml at all", "utf-8")
    outcome = fedct("silo", "check", kit.folder)
    assert outcome.code == DataError.exit_code
    assert "✓ Python" in outcome.out
    probes = {**check_module.PROBES, **check_module.NETWORK_PROBES}
    for title in sorted(probes.keys() - {"Python", "packages", "settings", "proxy"}):
        assert finding(outcome.out, title) == wording(name=title)


def test_a_probe_that_fails_itself_is_a_finding(
    fedct: Fedct, kit: Kit, monkeypatch: pytest.MonkeyPatch, wording: SnapshotAssertion
) -> None:
    def broken(path: Path) -> None:
        raise RuntimeError(SECRETS[0])

    monkeypatch.setattr("shutil.disk_usage", broken)
    outcome = fedct("silo", "check", kit.folder, "--offline")
    assert finding(outcome.out, "disk") == wording
    assert SECRETS[0] not in outcome.out
    assert SECRETS[0] in fedct("silo", "check", kit.folder, "--offline", "--details").out


# --- nothing that tells of a patient


def leaks(out: str, kit: Kit) -> list[str]:
    return [secret for secret in (*SECRETS, str(kit.source), str(kit.folder), str(Path.home())) if secret in out]


def rows_with_secrets(kit: Kit, label: str = "class") -> list[list[str]]:
    rows = tables(kit.source / "data.csv")
    rows[1][0] = "1234567.5"
    rows[2][rows[0].index(label)] = SECRETS[0]
    rows[3][rows[0].index(label)] = SECRETS[1]
    return rows


def break_nothing(kit: Kit) -> None:
    """Records that are all good, with a value that is known."""
    rows = tables(kit.source / "data.csv")
    rows[1][0] = "1234567.5"
    write(kit.source / "data.csv", rows)


def labels_are_names(kit: Kit) -> None:
    write(kit.source / "data.csv", rows_with_secrets(kit))


def mapping_has_names(kit: Kit) -> None:
    labels_are_names(kit)
    kit.edit("[learner]\n", f'[data.mapping]\n"{SECRETS[0]}" = "{SECRETS[1]}"\n\n[learner]\n')


def mapping_is_wrong(kit: Kit) -> None:
    kit.edit("[learner]\n", f'[data.mapping]\n"{SECRETS[0]}" = ["{SECRETS[1]}"]\n\n[learner]\n')


def header_is_a_record(kit: Kit) -> None:
    rows = tables(kit.source / "data.csv")
    rows[0] = [SECRETS[0], SECRETS[1], SECRETS[2], SECRETS[3], *(f"{SECRETS[3]}{i}" for i in range(len(rows[0]) - 4))]
    write(kit.source / "data.csv", rows)


def header_is_a_record_twice(kit: Kit) -> None:
    rows = tables(kit.source / "data.csv")
    rows[0] = [SECRETS[0]] * len(rows[0])
    write(kit.source / "data.csv", rows)


def numbers_are_names(kit: Kit) -> None:
    rows = tables(kit.source / "data.csv")
    rows[5][1] = SECRETS[3]
    write(kit.source / "data.csv", rows)


def row_is_torn(kit: Kit) -> None:
    rows = tables(kit.source / "data.csv")
    rows[5] = [SECRETS[0], SECRETS[1]]
    write(kit.source / "data.csv", rows)


def extra_column(kit: Kit) -> None:
    rows = tables(kit.source / "data.csv")
    write(kit.source / "data.csv", [[*row, SECRETS[number % 2]] for number, row in enumerate(rows)])


def file_is_named_after_a_patient(kit: Kit) -> None:
    kit.edit(str(kit.source / "data.csv"), str(kit.source / f"{SECRETS[0]}.csv"))


def label_is_a_name(kit: Kit) -> None:
    kit.edit('label = "class"', f'label = "{SECRETS[0]}"')


def study_is_gone(kit: Kit) -> None:
    shutil.rmtree(kit.folder / "study")


BREAKS = [
    break_nothing, labels_are_names, mapping_has_names, mapping_is_wrong, header_is_a_record, header_is_a_record_twice,
    numbers_are_names, row_is_torn, extra_column, file_is_named_after_a_patient, label_is_a_name, study_is_gone,
]  # fmt: skip


@pytest.mark.parametrize("spoil", BREAKS, ids=lambda spoil: spoil.__name__)
def test_it_is_safe_to_email(fedct: Fedct, kit: Kit, spoil: Callable[[Kit], None]) -> None:
    spoil(kit)
    outcome = fedct("silo", "check", kit.folder)
    assert leaks(outcome.out, kit) == []
    assert outcome.err == ""
    assert outcome.code == DataError.exit_code
    if spoil is not break_nothing:
        found = re.sub(r" *\n +", " ", outcome.out)
        assert re.search("^✗ (records|labels|study|silo.toml)", found, re.MULTILINE), outcome.out


@pytest.mark.parametrize("number", [0, 1, 4, 5])
def test_small_counts_are_hidden_and_nothing_tells_them_otherwise(fedct: Fedct, kit: Kit, number: int) -> None:
    header, *rows = tables(kit.source / "data.csv")
    sick = [row for row in rows if row[-1] == "diseased"][:number]
    healthy = [row for row in rows if row[-1] == "healthy"][:50]
    write(kit.source / "data.csv", [header, *healthy, *sick])
    out = fedct("silo", "check", kit.folder).out
    assert f"'healthy' 50, 'diseased' {number if number >= 5 else '<5'}" in finding(out, "classes")
    assert not re.search(rf"\b{50 + number}\b", out.replace("50,", ""))


def test_a_learner_that_says_what_it_sees_is_not_heard(
    fedct: Fedct, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "talks.py").write_text(
        "import sys, warnings\n"
        "from sklearn.tree import DecisionTreeClassifier\n"
        "class Talks(DecisionTreeClassifier):\n"
        "    def fit(self, X, y, sample_weight=None):\n"
        f"        print('{SECRETS[0]}'); print('{SECRETS[0]}', file=sys.stderr); warnings.warn('{SECRETS[0]}')\n"
        f"        raise ValueError('{SECRETS[0]}')\n",
        "utf-8",
    )
    monkeypatch.syspath_prepend(tmp_path)
    kit = make_kit(fedct, tmp_path, learner="talks.Talks")
    outcome = fedct("silo", "check", kit.folder)
    assert finding(outcome.out, "learner").startswith("✗ learner talks.Talks: it cannot be trained")
    assert leaks(outcome.out + outcome.err, kit) == []


# --- what may be wrong


def test_records_that_are_in_the_public_set_are_bad(fedct: Fedct, kit: Kit) -> None:
    header, *rows = tables(kit.source / "data.csv")
    public = kit.folder / "study" / "public.csv"
    write(public, [header[:-1], *(row[:-1] for row in rows)])
    out = fedct("silo", "check", kit.folder).out
    assert finding(out, "duplicates").startswith("✗ duplicates: 168 records are in the public set")


def test_others_who_can_read_the_keys_are_bad(fedct: Fedct, kit: Kit) -> None:
    (kit.folder / "keys" / "egress.key").chmod(0o640)
    out = fedct("silo", "check", kit.folder).out
    assert finding(out, "file modes").endswith("keys/egress.key fix: chmod 600 keys/egress.key")
    assert finding(out, "file modes").startswith("✗")


def test_a_log_that_was_changed_is_bad(fedct: Fedct, kit: Kit, wording: SnapshotAssertion) -> None:
    with kit.log() as log:
        approve(log, kit.config, kit.study)
    path = kit.state / "egress.jsonl"
    path.write_bytes(path.read_bytes().replace(b"approved", b"appr0ved"))
    assert finding(fedct("silo", "check", kit.folder).out, "egress log") == wording


# --- the way to the coordinator


def reach(fedct: Fedct, kit: Kit, port: int) -> str:
    kit.edit("localhost:1", f"localhost:{port}")
    return fedct("silo", "check", kit.folder).out


def test_a_certificate_for_another_name_is_bad(
    fedct: Fedct, kit: Kit, tmp_path: Path, wording: SnapshotAssertion
) -> None:
    authority = Authority.make()
    authority.write(kit.folder / "connection" / "ca.crt")
    with https_server(authority.server(tmp_path, "elsewhere.example")) as port:
        assert finding(reach(fedct, kit, port), "coordinator") == wording


@pytest.mark.parametrize("ahead", [-120.0, 120.0])
def test_a_clock_that_is_wrong_is_told(fedct: Fedct, kit: Kit, tmp_path: Path, ahead: float) -> None:
    authority = Authority.make()
    authority.write(kit.folder / "connection" / "ca.crt")
    with https_server(authority.server(tmp_path), ahead) as port:
        found = finding(reach(fedct, kit, port), "clock")
    assert found.startswith("!")
    assert ("behind" if ahead > 0 else "ahead of") in found


def test_a_coordinator_sends_nobody_to_another_address_in_the_house(fedct: Fedct, kit: Kit, tmp_path: Path) -> None:
    called = []

    class Door(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            called.append(self.path)
            self.send_response(200)
            self.end_headers()

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    authority = Authority.make()
    authority.write(kit.folder / "connection" / "ca.crt")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Door) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        to = f"http://127.0.0.1:{server.server_port}/open"
        with https_server(authority.server(tmp_path), to=to) as port:
            found = finding(reach(fedct, kit, port), "coordinator")
        server.shutdown()
    # Nor is what sends its callers elsewhere a coordinator.
    assert found.startswith("! coordinator: at localhost:")
    assert "something else has the right certificate (HTTP status 302)" in found
    assert called == []


# --- a promise


def protected(fedct: Fedct, kit: Kit, start: str = "privacy") -> str:
    return finding(fedct("silo", "check", kit.folder, "--offline").out, start)


def test_a_promise_that_can_be_kept_is_said_with_what_is_spent(
    fedct: Fedct, kit: Kit, monkeypatch: pytest.MonkeyPatch, wording: SnapshotAssertion
) -> None:
    assert "privacy:" not in fedct("silo", "check", kit.folder, "--offline").out
    monkeypatch.setattr("fedct_flwr.labelers.protect.labeler_for", drawing)
    kit.edit('protection = "none"', 'protection = "dp-linear"')
    assert protected(fedct, kit) == wording
    with Ledger(kit.state) as ledger:
        ledger.charge("heart-disease", DATA_SET, Budget(1.0, 1e-5), pure(0.25))
    assert protected(fedct, kit).endswith("0.25 spent")
    (kit.state / "ledger.mark").unlink()
    assert protected(fedct, kit) == wording
