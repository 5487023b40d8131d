"""What a check finds, what it says to do, and what it never says."""

import csv
import re
import shutil
import socket
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

from fedct_flwr.cli.silo import check as check_module
from fedct_flwr.cli.silo import checks
from fedct_flwr.hospital.approval import approve
from fedct_flwr.types import DataError
from tests.cli.silos import Fedct, Kit, coordinator_of, make_kit

SECRETS = ("Erika Mustermann", "Zaphod Beeblebrox", "1234567.5", "MRN-998877", "weird-label-9")


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def finding(outcome_text: str, start: str) -> str:
    """The finding that begins so, in one line."""
    (found,) = [line for line in re.sub(r" *\n +", " ", outcome_text).splitlines() if line[2:].startswith(start)]
    return found.rstrip()


def checked(fedct: Fedct, kit: Kit, start: str) -> str:
    """The finding of an offline check that begins so."""
    return finding(fedct("silo", "check", kit.folder, "--offline").out, start)


def change(path: Path, *changes: Callable[[list[list[str]]], object]) -> None:
    """Change the rows of a table, of which the first is its header."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    for one in changes:
        one(rows)
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)


def leaks(out: str, kit: Kit) -> list[str]:
    return [secret for secret in (*SECRETS, str(kit.source), str(kit.folder), str(Path.home())) if secret in out]


def name_labels(rows: list[list[str]]) -> None:
    rows[2][-1], rows[3][-1] = SECRETS[:2]


def test_all_is_well(fedct: Fedct, kit: Kit) -> None:
    with coordinator_of(kit), socket.create_server(("127.0.0.1", 0)) as supernode, kit.log() as log:
        kit.edit("127.0.0.1:9094", f"127.0.0.1:{supernode.getsockname()[1]}")
        approve(log, kit.config, kit.study)
        outcome = fedct("silo", "check", kit.folder)
    text = outcome.out
    assert outcome.code == 0, text
    assert not re.search("^[✗!–]", text, re.MULTILINE), text
    assert finding(text, "classes") == "✓ classes, to tens: 'healthy' 90, 'diseased' 80"
    assert finding(text, "public set") == (
        f"✓ public set: 228 examples, fingerprint {kit.study.public.fingerprint.hex()}"
    )
    assert finding(text, "clock").endswith("within a few seconds")
    assert max(map(len, text.splitlines())) <= 80


def test_a_package_of_another_version_is_bad(fedct: Fedct, kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "version", lambda name: "1.25.0" if name == "numpy" else version(name))
    said = "✗ numpy 1.25.0, and numpy>=1.26 is needed fix: pip install 'numpy>=1.26'"
    assert checked(fedct, kit, "numpy") == said


def test_offline_makes_no_connection(fedct: Fedct, kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.create_connection", lambda *_, **__: pytest.fail("a connection was made"))
    outcome = fedct("silo", "check", kit.folder, "--offline")
    assert outcome.code == 0
    assert "coordinator:" not in outcome.out


def test_noise_for_students_alone_is_checked_without_a_labeler(fedct: Fedct, kit: Kit) -> None:
    kit.protect("fedkt-l2")
    kit.let_out("counts")
    kit.edit("epsilon = 1.0", "epsilon = 50.0")
    text = fedct("silo", "check", kit.folder, "--offline").out
    assert finding(text, "students") == "✓ students: 1 can be taught on these records"
    assert finding(text, "privacy").startswith("✓ privacy: fedkt-l2, epsilon 50")


def test_every_check_is_made_though_others_fail(fedct: Fedct, kit: Kit) -> None:
    kit.file.write_text("no toml at all", "utf-8")
    outcome = fedct("silo", "check", kit.folder)
    assert outcome.code == DataError.exit_code
    titles = {check.title for check in (*check_module.CHECKS, *check_module.NETWORK_CHECKS)}
    for title in titles - {"packages", "settings"}:
        assert finding(outcome.out, title) == f"– {title}: not looked at, as silo.toml cannot be read"


def test_records_without_a_label_column_are_one_thing_to_correct(fedct: Fedct, kit: Kit) -> None:
    kit.edit('label = "class"', 'label = ""')
    out = fedct("silo", "check", kit.folder, "--offline").out
    assert finding(out, "records") == "✗ records: silo.toml names no label column fix: write label = '...' under [data]"
    assert finding(out, "data") == "– data: not looked at, as the records cannot be read"
    assert len(re.findall("^✗", out, re.MULTILINE)) == 1, out


TEST_FILES: dict[str, Callable[[list[list[str]]], object] | None] = {
    "✓ test records: all 13 columns of the study are there": lambda rows: None,
    "✗ test records: nothing is there where silo.toml says": None,
    "✗ test records: the file has none": lambda rows: rows.__delitem__(slice(1, None)),
    "✗ test records: the label column": lambda rows: [row.pop() for row in rows],
    "✗ test records: missing are 'age'": lambda rows: [row.pop(0) for row in rows],
    "✗ labels: some in the test file are missing, no class of the study": name_labels,
}


@pytest.mark.parametrize("said", TEST_FILES)
def test_the_test_file_is_looked_at_like_the_records(fedct: Fedct, kit: Kit, said: str) -> None:
    spoil = TEST_FILES[said]
    kit.edit('label = "class"', f'label = "class"\ntest-file = "{kit.source}/test.csv"')
    kit.edit("metrics = false", "metrics = true")
    if spoil:
        change(kit.source / "test.csv", spoil)
    else:
        (kit.source / "test.csv").unlink()
    out = fedct("silo", "check", kit.folder, "--offline").out
    assert finding(out, said[2:]).startswith(said)
    assert leaks(out, kit) == []


def test_a_column_without_a_name_is_no_group(fedct: Fedct, kit: Kit) -> None:
    change(kit.source / "data.csv", lambda rows: [row.insert(0, str(at) if at else "") for at, row in enumerate(rows)])
    assert checked(fedct, kit, "records").startswith("✗ records: 1 column is not the study's")


def test_a_check_that_fails_itself_is_a_finding(fedct: Fedct, kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(path: Path) -> None:
        raise RuntimeError(SECRETS[0])

    monkeypatch.setattr("shutil.disk_usage", broken)
    found = checked(fedct, kit, "disk")
    assert found.startswith("✗ disk: could not be looked at (RuntimeError)")
    assert SECRETS[0] not in found
    assert SECRETS[0] in fedct("silo", "check", kit.folder, "--offline", "--details").out


# --- nothing that tells of a patient


RECORDS: dict[str, Callable[[list[list[str]]], object]] = {
    "all good": lambda rows: None,
    "labels are names": name_labels,
    "a number is a name": lambda rows: rows[5].__setitem__(1, SECRETS[3]),
}
FOLDERS: dict[str, Callable[[Kit], object]] = {
    "the mapping has names": lambda kit: kit.edit(
        "[learner]\n", f'[data.mapping]\n"{SECRETS[0]}" = "{SECRETS[1]}"\n\n[learner]\n'
    ),
    "the file is a name": lambda kit: kit.edit("data.csv", f"{SECRETS[0]}.csv"),
    "the label is a name": lambda kit: kit.edit('label = "class"', f'label = "{SECRETS[0]}"'),
    "there is no study": lambda kit: shutil.rmtree(kit.folder / "study"),
}


@pytest.mark.parametrize("spoiled", [*RECORDS, *FOLDERS])
def test_it_is_safe_to_email(fedct: Fedct, kit: Kit, spoiled: str) -> None:
    # A value that is known.
    records = RECORDS.get(spoiled, name_labels)
    change(kit.source / "data.csv", lambda rows: rows[1].__setitem__(0, "1234567.5"), records)
    FOLDERS.get(spoiled, lambda kit: None)(kit)
    outcome = fedct("silo", "check", kit.folder)
    assert leaks(outcome.out, kit) == []
    assert outcome.err == ""
    assert outcome.code == DataError.exit_code
    if spoiled != "all good":
        found = re.sub(r" *\n +", " ", outcome.out)
        assert re.search("^✗ (records|labels|study|silo.toml)", found, re.MULTILINE), outcome.out


@pytest.mark.parametrize("number", [4, 5])
def test_small_counts_are_hidden_and_nothing_tells_them_otherwise(fedct: Fedct, kit: Kit, number: int) -> None:
    def few(rows: list[list[str]]) -> None:
        classes = {name: [row for row in rows if row[-1] == name] for name in ("healthy", "diseased")}
        rows[1:] = [*classes["healthy"][:50], *classes["diseased"][:number]]

    change(kit.source / "data.csv", few)
    out = fedct("silo", "check", kit.folder).out
    assert f"'healthy' 50, 'diseased' {'10' if number >= 5 else '<5'}" in finding(out, "classes")
    # Not in all of the page, which also says how much memory and disk there is.
    told = "".join(re.findall(r"^. (?:records|labels|classes).*(?:\n  .*)*", out, re.MULTILINE))
    assert not re.search(rf"\b{50 + number}\b", told.replace("50,", ""))


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
    assert finding(outcome.out, "learner").startswith("✗ learner: it cannot be trained")
    assert leaks(outcome.out + outcome.err, kit) == []


# --- what may be wrong


def group_of(kit: Kit, value: str, protection: str) -> None:
    data = kit.source / "data.csv"
    change(data, lambda rows: [row.append(value if at else "patient") for at, row in enumerate(rows)])
    kit.protect(protection)
    kit.edit("# [data.tables]", '[data.tables]\ngroup = "patient"')


def publish_the_records(kit: Kit) -> None:
    public = shutil.copy(kit.source / "data.csv", kit.folder / "study" / "public.csv")
    change(Path(public), lambda rows: [row.pop() for row in rows])


def change_the_log(kit: Kit) -> None:
    with kit.log() as log:
        approve(log, kit.config, kit.study)
    path = kit.state / "egress.jsonl"
    path.write_bytes(path.read_bytes().replace(b"approved", b"appr0ved"))


FOUND: dict[str, Callable[[Kit], object]] = {
    "✗ records: group column 'patient' of the table is empty in most records": lambda kit: group_of(kit, "", "none"),
    "✗ records: some have no group, or all have the same": lambda kit: group_of(kit, "p", "dp-linear"),
    "✗ duplicates: 170 records are in the public set": publish_the_records,
    "✗ file modes: others can read keys/egress.key fix: chmod 600 keys/egress.key": (
        lambda kit: (kit.folder / "keys" / "egress.key").chmod(0o640)
    ),
    "✗ egress log: not intact from line 1 fix: fedct silo verify": change_the_log,
    "! test scores: metrics = true, and there are no test records to score": (
        lambda kit: kit.edit("metrics = false", "metrics = true")
    ),
}


@pytest.mark.parametrize("said", FOUND)
def test_what_is_wrong_is_a_finding_of_its_kind(fedct: Fedct, kit: Kit, said: str) -> None:
    FOUND[said](kit)
    assert checked(fedct, kit, said[2:].partition(":")[0]).startswith(said)


def test_no_line_denies_copies_that_another_has_found(fedct: Fedct, kit: Kit) -> None:
    none = checked(fedct, kit, "duplicates")
    assert none.startswith("✓ duplicates: no exact copy in the public set, and no more rounded ones than chance")
    copies: list[list[str]] = []

    def finer(rows: list[list[str]]) -> None:
        at = rows[0].index("oldpeak")
        copies.extend(row[:-1] for row in rows[1:21])
        for number, row in enumerate(rows[1:]):
            row[at] = f"{float(row[at]) + 0.02 + 0.01 * (number % 3):.2f}"

    change(kit.source / "data.csv", finer)
    change(kit.folder / "study" / "public.csv", lambda rows: rows.extend(copies))
    out = fedct("silo", "check", kit.folder, "--offline").out
    assert "stand in the public set as well" in " ".join(out.split())
    assert "duplicates:" not in out


# --- the way to the coordinator


def test_a_coordinator_sends_nobody_to_another_address_in_the_house(fedct: Fedct, kit: Kit) -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        with coordinator_of(kit, to=f"http://127.0.0.1:{door.getsockname()[1]}/open"):
            found = finding(fedct("silo", "check", kit.folder).out, "coordinator")
        door.setblocking(False)
        with pytest.raises(BlockingIOError):
            door.accept()
    # Nor is what sends its callers elsewhere a coordinator.
    assert found.startswith("! coordinator: at localhost:")
    assert "something else has the right certificate (HTTP status 302)" in found


def test_records_that_no_promise_can_read_alone_are_counted(fedct: Fedct, kit: Kit) -> None:
    kit.protect()
    assert "✓ data:" in (out := fedct("silo", "check", kit.folder, "--offline").out)
    assert "left out" not in out
    # A reader of the whole file takes a line break after a label for nothing.
    change(kit.config.data.source, lambda rows: [row.__setitem__(-1, f"{row[-1]}\n") for row in rows[1:41]])
    assert "records: 40 (to tens) are left out" in checked(fedct, kit, "records: 40")


def test_values_outside_of_the_studys_dictionary_are_counted_to_tens(fedct: Fedct, kit: Kit) -> None:
    path = kit.config.study / "study.toml"
    path.write_text(path.read_text() + '\n[columns.age]\nkind = "integer"\nrange = [60, 100]\n')
    said = checked(fedct, kit, "data: 'age'")
    assert re.search(r"outside of the study's dictionary, to tens \d*0", said)
    assert "check unit and coding" in re.sub(r"\s+", " ", fedct("silo", "check", kit.folder, "--offline").out)
