"""What would leave is said in plain words, and nothing is approved by the way."""

import csv
import json
import time
from base64 import b64encode
from collections.abc import Callable

import pytest
import tomli_w
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.cli.invitation import fingerprint_of
from fedct_flwr.hospital.approval import current, terms_digest
from fedct_flwr.hospital.keys import load_egress_key
from fedct_flwr.hospital.log_entry import Event, read_entries
from fedct_flwr.hospital.revocation import withdraw
from fedct_flwr.privacy.budget import Budget
from fedct_flwr.privacy.events import pure
from fedct_flwr.privacy.ledger import Ledger
from fedct_flwr.privacy.ledger_file import LedgerError
from fedct_flwr.silo.release import DATA_SET
from fedct_flwr.types import ConfigError, RunError
from tests.cli.silos import Fedct, Kit
from tests.wording import sentences_with

Types = Callable[[str], None]


def words(out: str) -> str:
    return " ".join(out.split())


def approved(kit: Kit) -> bool:
    return current(read_entries(kit.state)) == terms_digest(kit.config, kit.study)


def plant_patients(kit: Kit) -> None:
    """A public set that is the silo's own records."""
    with (kit.source / "data.csv").open(newline="", encoding="utf-8") as file:
        rows = [row[:-1] for row in csv.reader(file)]
    with (kit.folder / "study" / "public.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)


def test_all_that_is_to_be_known_is_said(fedct: Fedct, kit: Kit, wording: SnapshotAssertion) -> None:
    outcome = fedct("silo", "approve", kit.folder, "--yes", "--reason", "test")
    assert outcome.code == 0
    said = words(outcome.out)
    assert kit.study.public.fingerprint.hex() in said
    for part in (
        "Columns: 13", "228 examples without labels", "Rounds: 100, of which 0 are used",
        "Labels: 1,000,000, of which 0 are used", "Bytes: 10,000,000", "localhost:1",
    ):  # fmt: skip
        assert part in said, part
    assert said == wording
    assert max(map(len, outcome.out.splitlines())) <= 80
    assert "Under other studies" not in said
    assert approved(kit)


def agree_on_sums(kit: Kit, **more: object) -> dict[str, Ed25519PublicKey]:
    """Put three silos' keys into the study, and what else they agree on."""
    keys = {name: Ed25519PrivateKey.generate().public_key() for name in ("lyon", "porto")}
    keys["cleveland"] = load_egress_key(kit.config.egress_key).public_key()
    lines = {
        name: b64encode(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).decode()
        for name, key in keys.items()
    }
    path = kit.config.study / "study.toml"
    path.write_text(path.read_text("utf-8") + "\n" + tomli_w.dumps({"sums": {"keys": lines}, **more}), "utf-8")
    return keys


def test_what_the_joint_labeler_costs_and_assumes_is_said(fedct: Fedct, kit: Kit, wording: SnapshotAssertion) -> None:
    agree_on_sums(kit, joint={"records": 500})
    kit.edit('kinds = ["hard"]', 'kinds = ["joint"]')
    kit.edit("epsilon = 1.0", "epsilon = 2.0")
    said = words(fedct("silo", "approve", kit.folder, "--yes", "--reason", "test").out)
    for part in (
        "15 sums of 22 numbers", "at least 3 silos", "epsilon 1, delta 1e-05, all steps together",
        "at most 1 of the silos collude", "The noise of 2 honest silos is counted", "about 500 records",
        "Spent so far: nothing of epsilon 2",
    ):  # fmt: skip
        assert part in said, part
    of_sums = ("masked numbers", "only a sum of", "One training costs", "does not leave Spent", "any gradient")
    assert sentences_with(said, *of_sums, "fingerprints of their keys", "It needs partners") == wording
    assert approved(kit)
    for wrong in ("Labels are not nothing", "No differential privacy", "bytes in one reply"):
        assert wrong not in said
    assert "joint labeler: epsilon 0 of 2 spent" in words(fedct("silo", "status", kit.folder).out)
    sheet = words(fedct("privacy-sheet", kit.folder).out)
    for part in (
        "15 sums of 22 numbers",
        "epsilon 2, delta 1e-05",
        "| cleveland | 0 | 0 | 2 | 1e-05 |",
        "Other studies",
    ):
        assert part in sheet, part
    assert "simulation" not in sheet
    checked = words(fedct("silo", "check", kit.folder, "--offline").out)
    assert sentences_with(checked, "privacy:", "the joint labeler, epsilon 2, delta 1e-05", "0 spent") == wording


def test_a_joint_labeler_that_costs_more_than_the_silo_allows_is_not_approved(fedct: Fedct, kit: Kit) -> None:
    agree_on_sums(kit, joint={"records": 500, "epsilon": 3.0})
    kit.edit('kinds = ["hard"]', 'kinds = ["joint"]')
    outcome = fedct("silo", "approve", kit.folder, "--yes", "--reason", "test")
    assert outcome.code == ConfigError.exit_code
    assert "epsilon 3 at delta 1e-05, and [privacy] in silo.toml allows 1 at 1e-05" in words(outcome.sentence)
    assert not approved(kit)


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        ("sum", ["masked numbers that look random"]),
        ("soft-sum", ["masked probabilities that look random", "Rounds of training here: 100", "Every silo learns"]),
    ],
)
def test_the_keys_of_sums_can_be_compared_and_it_is_said_what_is_added(
    fedct: Fedct, kit: Kit, kind: str, parts: list[str], wording: SnapshotAssertion
) -> None:
    keys = agree_on_sums(kit)
    kit.edit('kinds = ["hard"]', f'kinds = ["{kind}"]')
    outcome = fedct("silo", "approve", kit.folder, "--yes", "--reason", "test", "--json")
    assert outcome.code == 0, outcome.err
    sections = json.loads(outcome.out)["sections"]
    assert list(sections) == wording
    (told,) = (lines for title, lines in sections.items() if "fingerprints" in title)
    assert told[:3] == [f"{name}: {fingerprint_of(key)}" for name, key in sorted(keys.items())]
    (limits,) = (lines for title, lines in sections.items() if "secure sum" in title)
    assert limits == wording
    for part in parts:
        assert any(part in line for lines in sections.values() for line in lines), part


@pytest.mark.parametrize("kind", ["soft", "soft-sum"])
def test_probabilities_are_not_approved_under_a_protection_that_does_not_cover_them(
    fedct: Fedct, kit: Kit, kind: str
) -> None:
    kit.edit('kinds = ["hard"]', f'kinds = ["{kind}"]')
    kit.edit('protection = "none"', 'protection = "dp-linear"')
    outcome = fedct("silo", "approve", kit.folder, "--yes", "--reason", "test")
    assert outcome.code == 2
    assert "protection = 'dp-linear' covers labels and not probabilities" in words(outcome.err)
    assert current(read_entries(kit.state)) is None


def test_what_has_left_already_is_counted(fedct: Fedct, kit: Kit) -> None:
    with kit.log() as log:
        log.append(kit.released(1, 228, 151))
    said = words(fedct("silo", "approve", kit.folder, "--yes", "--reason", "test").out)
    assert "of which 1 are used" in said
    assert "of which 228 are used" in said


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 1), ("\n", 1), ("", 1)])
def test_it_asks(fedct: Fedct, kit: Kit, types: Types, answer: str, code: int) -> None:
    types(answer)
    outcome = fedct("silo", "approve", kit.folder)
    assert outcome.code == code
    assert approved(kit) is (code == 0)
    assert "Approve this?" in outcome.out
    if code:
        assert list(read_entries(kit.state)) == []


def test_yes_alone_does_not_pass_an_alarm(fedct: Fedct, kit: Kit) -> None:
    plant_patients(kit)
    outcome = fedct("silo", "approve", kit.folder, "--yes", "--reason", "test")
    assert outcome.code == ConfigError.exit_code
    assert "add --despite-duplicates" in outcome.sentence
    assert "of 168 records 168 have an exact" in words(outcome.out)
    assert list(read_entries(kit.state)) == []


def test_while_the_agent_is_at_work_no_budget_is_approved(fedct: Fedct, kit: Kit, wording: SnapshotAssertion) -> None:
    protect(kit)
    with kit.log():
        outcome = fedct("silo", "approve", kit.folder, "--yes", "--reason", "test")
    assert outcome.code == RunError.exit_code
    assert outcome.sentence == wording


def test_what_was_withdrawn_meanwhile_comes_before_the_new_approval(fedct: Fedct, kit: Kit) -> None:
    fedct("silo", "approve", kit.folder, "--yes", "--reason", "test")
    withdraw(kit.state)
    fedct("silo", "approve", kit.folder, "--yes", "--reason", "test")
    assert [entry.event for entry in read_entries(kit.state)] == [Event.APPROVED, Event.REVOKED, Event.APPROVED]
    assert approved(kit)
    assert not (kit.state / "revoked").exists()


# --- a promise


def protect(kit: Kit, **values: object) -> None:
    kit.edit('protection = "none"', 'protection = "dp-linear"')
    for key, value in values.items():
        kit.edit(f"\n{key} = ", f"\n{key} = {value} # ")


def test_what_is_promised_is_said_in_plain_words_and_logged(fedct: Fedct, kit: Kit, wording: SnapshotAssertion) -> None:
    protect(kit)
    said = words(fedct("silo", "approve", kit.folder, "--yes", "--reason", "test").out)
    for part in (
        "Epsilon 1, delta 1e-05, in total", "Planned for 10 rounds and 2,280 labels",
        "Spent so far: nothing of epsilon 1", "fedct privacy-sheet",
    ):  # fmt: skip
        assert part in said, part
    assert said == wording
    assert "No differential privacy" not in said
    assert "Warning" not in said
    (entry,) = read_entries(kit.state)
    assert entry.details["privacy"] == kit.config.privacy.model_dump(mode="json")
    with Ledger(kit.state) as ledger:
        found = ledger.spent("heart-disease", DATA_SET)
    assert found is not None
    assert found.budget == Budget(1.0, 1e-5)


def test_what_left_without_protection_is_not_promised_away(fedct: Fedct, kit: Kit, wording: SnapshotAssertion) -> None:
    fedct("silo", "approve", kit.folder, "--yes", "--reason", "test")
    with kit.log() as log:
        log.append(kit.released(1, 228, 151))
    protect(kit)
    said = words(fedct("silo", "approve", kit.folder, "--yes", "--reason", "test").out)
    assert sentences_with(said, "Warning:", "228 labels have left", "nothing here covers") == wording
    page = fedct("privacy-sheet", kit.folder).out
    assert "**228 labels of this study have left without protection**" in page


def test_a_charge_of_a_clock_that_was_ahead_is_said_and_approving_dates_it_to_now(fedct: Fedct, kit: Kit) -> None:
    protect(kit)

    def approved() -> str:
        return words(fedct("silo", "approve", kit.folder, "--yes", "--reason", "test").out)

    assert "the clock is earlier" not in approved()
    ahead = time.time() + 86400
    with Ledger(kit.state, clock=lambda: ahead) as ledger:
        ledger.charge("another", DATA_SET, Budget(1.0, 1e-5), pure(0.25))
    early = "the clock is earlier than the privacy ledger's last charge"
    found = fedct("silo", "check", kit.folder, "--offline")
    assert f"✗ privacy: {early}" in words(found.out)
    assert "the clock is earlier than the ledger's last charge" in words(fedct("silo", "status", kit.folder).out)
    assert early in approved()
    assert early not in approved()
    assert early not in words(fedct("silo", "check", kit.folder, "--offline").out)
    # What it cost is still there.
    assert json.loads(fedct("silo", "status", kit.folder, "--json").out)["privacy"]["together"] == pytest.approx(
        0.25, abs=1e-3
    )


def test_a_budget_that_is_raised_is_in_force_once_it_is_approved(
    fedct: Fedct, kit: Kit, types: Types, wording: SnapshotAssertion
) -> None:
    protect(kit)
    fedct("silo", "approve", kit.folder, "--yes", "--reason", "test")
    with Ledger(kit.state) as ledger:
        ledger.charge("heart-disease", DATA_SET, Budget(1.0, 1e-5), pure(0.5))
        kit.edit("epsilon = 1.0", "epsilon = 2.0")
        assert not approved(kit)
        types("n\n")
        said = words(fedct("silo", "approve", kit.folder).out)
        assert "Spent so far: epsilon 0.5 of 2, 1.5 left" in said
        assert sentences_with(said, "Approved before", "from now on") == wording
        with pytest.raises(LedgerError, match="was raised"):
            ledger.charge("heart-disease", DATA_SET, Budget(2.0, 1e-5), pure(1.0))
        assert fedct("silo", "approve", kit.folder, "--yes", "--reason", "test").code == 0
        ledger.charge("heart-disease", DATA_SET, Budget(2.0, 1e-5), pure(1.0))


def test_nothing_is_approved_where_the_ledger_is_lost(fedct: Fedct, kit: Kit) -> None:
    protect(kit)
    fedct("silo", "approve", kit.folder, "--yes", "--reason", "test")
    kit.edit("epsilon = 1.0", "epsilon = 2.0")
    (kit.state / "privacy" / "ledger.sqlite").unlink()
    outcome = fedct("silo", "approve", kit.folder, "--yes", "--reason", "test")
    assert outcome.code == RunError.exit_code
    assert "the privacy ledger" in outcome.sentence
    assert not approved(kit)


def test_an_epsilon_that_protects_nothing_is_neither_checked_nor_approved_nor_started_with(
    fedct: Fedct, kit: Kit
) -> None:
    kit.edit("epsilon = 1.0", "epsilon = 0.1")
    why = "nothing is protected, as epsilon has no effect on protection = 'none': set protection to 'dp-sgd'"
    for command in (["approve", kit.folder, "--yes", "--reason", "test"], ["start", kit.folder]):
        outcome = fedct("silo", *command)
        assert outcome.code == 2
        assert why in words(outcome.err)
    assert why in words(fedct("silo", "check", kit.folder, "--offline").out)
    assert not approved(kit)
    # What only looks works with any file.
    assert fedct("silo", "status", kit.folder).code == 0
