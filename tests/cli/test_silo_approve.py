"""What would leave is said in plain words, and nothing is approved by the way."""

import json
from collections.abc import Callable, Mapping

import pytest
from dp_accounting import GaussianDpEvent
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.cli.invitation import fingerprint_of
from fedct_flwr.cli.silo.approval_page import Page, Units
from fedct_flwr.hospital.approval import terms_digest
from fedct_flwr.hospital.duplicates import DuplicateReport
from fedct_flwr.hospital.log_entry import read_entries
from fedct_flwr.privacy.budget import DATA_SET, Budget
from fedct_flwr.privacy.events import pure
from fedct_flwr.privacy.ledger import Ledger
from fedct_flwr.privacy.ledger_file import LedgerError
from fedct_flwr.types import ConfigError, DataError
from tests.cli.runner import Outcome
from tests.cli.silos import YES, Fedct, Kit, agree_on_sums, words

Types = Callable[[str], None]
NO_COPIES = DuplicateReport(0, 0, 0, 0)


def approve(fedct: Fedct, kit: Kit, *options: str) -> Outcome:
    return fedct("silo", "approve", kit.folder, *YES, *options)


def said(fedct: Fedct, kit: Kit) -> str:
    """The page of an approval that is given."""
    outcome = approve(fedct, kit)
    assert outcome.code == 0, outcome.err
    assert kit.is_approved
    return words(outcome.out)


# --- the page


LET_OUT: Mapping[str, Mapping[str, str]] = {
    "labels": {},
    "labels-dp-linear": {"protection": "dp-linear"},
    "votes": {"kind": "counts", "partitions": "3"},
    "probabilities": {"kind": "soft"},
    "sums": {"kind": "sum"},
    "counts of patients": {"kind": "count"},
    "labels and scores": {"kind": 'hard", "scores', "protection": "dp-linear"},
}
"""What a silo may let out."""


def let_out(kit: Kit, kind: str = "hard", protection: str = "none", partitions: str = "0") -> None:
    kit.let_out(kind)
    kit.protect(protection)
    kit.edit("partitions = 0", f"partitions = {partitions}")


@pytest.mark.parametrize("policy", LET_OUT.values(), ids=LET_OUT)
def test_all_that_is_to_be_known_is_said(
    fedct: Fedct, kit: Kit, policy: dict[str, str], wording: SnapshotAssertion
) -> None:
    kind = policy.get("kind", "")
    keys = agree_on_sums(kit) if "sum" in kind else {}
    if kind == "count":
        keys = agree_on_sums(kit, count={"epsilon": 0.2})
    if "scores" in kind:
        keys = agree_on_sums(kit, scores={"records": 400, "epsilon": 0.2})
        kit.edit('# test-file = "test.csv"', f'test-file = "{kit.source / "data.csv"}"')
    let_out(kit, **policy)
    outcome = approve(fedct, kit)
    assert outcome.code == 0, outcome.err
    page = words(outcome.out)
    assert kit.study.public.fingerprint.hex() in page
    for name, key in keys.items():
        assert f"{name}: {fingerprint_of(key)}" in page
        outcome = Outcome(0, outcome.out.replace(fingerprint_of(key), "<fingerprint>"), "")
    assert max(map(len, outcome.out.splitlines())) <= 80
    assert outcome.out == wording
    assert kit.is_approved
    # What the agent starts with, and the first line of the ledger.
    if kit.config.promises:
        (entry,) = read_entries(kit.state)
        assert entry.details["privacy"] == kit.config.privacy.decides
        with Ledger(kit.state) as ledger:
            found = ledger.spent("heart-disease", DATA_SET)
        assert found is not None
        assert found.budget == Budget(1.0, 1e-5)


def test_what_the_study_states_is_shown_and_is_part_of_what_is_approved(fedct: Fedct, kit: Kit) -> None:
    before = terms_digest(kit.config, kit.study)
    path = kit.folder / "study" / "study.toml"
    path.write_text(f"{path.read_text('utf-8')}\n[governance]\nretention = 'two years'\n", "utf-8")
    page = said(fedct, kit)
    assert "How long the coordinator keeps the labels: 'two years'" in page
    assert "If a patient withdraws consent: not stated" in page
    assert terms_digest(kit.config, kit.study) != before


def test_what_has_changed_since_the_last_approval_comes_first(fedct: Fedct, kit: Kit) -> None:
    for _ in range(2):
        assert "Changed since" not in said(fedct, kit)
    kit.edit("max-rounds = 100", "max-rounds = 7")
    study = kit.folder / "study" / "study.toml"
    study.write_text(f"{study.read_text('utf-8')}\n[governance]\nretention = 'two years'\n", "utf-8")
    page = said(fedct, kit)
    assert page.lstrip().startswith(
        "Changed since it was last approved policy in silo.toml the study: its classes, columns, public set or test set"
    )


def a_joint_labeler_that_costs_too_much(kit: Kit) -> None:
    agree_on_sums(kit, joint={"records": 500, "epsilon": 3.0})
    kit.let_out("joint")


@pytest.mark.parametrize(
    ("spoil", "said", "code"),
    [
        (a_joint_labeler_that_costs_too_much, "and [privacy] in silo.toml allows 1 at 1e-05", ConfigError.exit_code),
        (lambda kit: let_out(kit, "soft", "dp-linear"), "covers labels and not probabilities", ConfigError.exit_code),
        (lambda kit: kit.edit("epsilon = 1.0", "epsilon = 0.1"), "epsilon has no effect", ConfigError.exit_code),
        (lambda kit: kit.edit("# test-file =", "test-file ="), "test.csv", DataError.exit_code),
    ],
)
def test_what_cannot_be_kept_is_not_approved(
    fedct: Fedct, kit: Kit, spoil: Callable[[Kit], None], said: str, code: int
) -> None:
    spoil(kit)
    outcome = approve(fedct, kit)
    assert (outcome.code, said in words(outcome.err), kit.events) == (code, True, [])


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 1), ("\n", 1)])
def test_it_asks(fedct: Fedct, kit: Kit, types: Types, answer: str, code: int) -> None:
    types(answer)
    outcome = fedct("silo", "approve", kit.folder, "--json")
    assert (outcome.code, json.loads(outcome.out)["approved"]) == (code, code == 0)
    assert kit.is_approved is (code == 0)
    # Standard output has the document alone.
    assert "Approve this?" in outcome.err
    if code:
        assert kit.events == []


# --- a promise


def test_what_left_without_protection_is_not_promised_away(fedct: Fedct, kit: Kit) -> None:
    approve(fedct, kit)
    with kit.log() as log:
        log.append(kit.released(1, 228, 151))
    kit.protect()
    assert "Warning: 228 labels have left without protection; nothing here covers them" in said(fedct, kit)
    page = fedct("privacy-sheet", kit.folder).out
    assert "**228 labels of this study have left without protection**" in page


def test_a_budget_that_is_raised_is_in_force_once_it_is_approved(fedct: Fedct, kit: Kit, types: Types) -> None:
    kit.protect()
    approve(fedct, kit)
    with Ledger(kit.state) as ledger:
        ledger.charge("heart-disease", DATA_SET, Budget(1.0, 1e-5), pure(0.5))
        kit.edit("epsilon = 1.0", "epsilon = 2.0")
        assert not kit.is_approved
        types("n\n")
        page = words(fedct("silo", "approve", kit.folder).out)
        assert "Spent so far: epsilon 0.5 of 2, 1.5 left" in page
        assert "Approved before was epsilon 1 at delta 1e-05; from now on it is 2 at 1e-05" in page
        with pytest.raises(LedgerError, match="was raised"):
            ledger.charge("heart-disease", DATA_SET, Budget(2.0, 1e-5), pure(1.0))
        assert approve(fedct, kit).code == 0
        ledger.charge("heart-disease", DATA_SET, Budget(2.0, 1e-5), pure(1.0))


def test_what_is_spent_is_said_at_the_delta_that_is_asked_for(fedct: Fedct, kit: Kit) -> None:
    kit.protect()
    with Ledger(kit.state) as ledger:
        ledger.charge("heart-disease", DATA_SET, Budget(1.0, 1e-5), GaussianDpEvent(5.0))
        spent = [ledger.spent("heart-disease", DATA_SET, delta).epsilon.upper for delta in (1e-5, 1e-9)]
    assert spent[0] < 1 < spent[1]
    kit.edit("\ndelta = 1e-05", "\ndelta = 1e-9")
    refused = approve(fedct, kit)
    assert f"Spent so far: epsilon {spent[1]:.3g} of 1, 0 left" in words(refused.out)
    assert "Warning: more is spent than this budget promises" in words(refused.out)
    assert "already spent more than epsilon 1 at delta 1e-09" in words(refused.err)
    assert not kit.is_approved
    status = json.loads(fedct("silo", "status", kit.folder, "--json").out)
    assert status["privacy"]["spent"] == spent[1]


def test_other_studies_spend_too_within_the_budget_of_the_records(fedct: Fedct, kit: Kit) -> None:
    kit.protect()
    with Ledger(kit.state) as ledger:
        ledger.charge("another", DATA_SET, Budget(1.0, 1e-5), pure(0.5))
    assert "all together epsilon 0.5 at delta 1e-05, which no budget bounds" in said(fedct, kit)
    kit.edit("# [records]", '[records]\nfolder = "common"\nepsilon = 3.0')
    allowed = "all together epsilon 0.5 at delta 1e-05, and [records] in silo.toml allows epsilon 3 at delta 1e-05"
    assert allowed in said(fedct, kit)
    assert allowed in fedct("privacy-sheet", kit.folder).out


def test_patients_are_protected_where_a_column_names_them(fedct: Fedct, kit: Kit) -> None:
    data = kit.config.data.source
    lines = data.read_text("utf-8").splitlines()
    grouped = [f"{lines[0]},patient", *(f"{line},p{number // 7}" for number, line in enumerate(lines[1:]))]
    data.write_text("\n".join(grouped) + "\n", "utf-8")
    kit.file.write_text(kit.file.read_text("utf-8") + '\n[data.tables]\ngroup = "patient"\n', "utf-8")
    kit.protect("dp-sgd")
    assert "a patient may have several: choose another protection" in words(approve(fedct, kit).err)
    kit.edit('"dp-sgd"', '"dp-linear"')
    page = said(fedct, kit)
    assert "What the labels may tell about a patient" in page
    assert "Whom it protects: one patient of a silo, added or removed with all records" in page
    assert "A patient has at most 7 records here" in page


@pytest.mark.parametrize(
    ("tables", "once"),
    [
        ("", "each record once, several of a person too. Those"),
        ('[data.tables]\ngroup = "patient"\n', "each patient once. Those"),
        ('[data.tables]\ngroup = "patient"\n[records]\nopt-out = "ids.csv"\n', "none who has opted out. Those"),
    ],
    ids=["records", "patients", "patients and a list"],
)
def test_a_count_is_of_patients_where_a_column_names_them(kit: Kit, tables: str, once: str) -> None:
    agree_on_sums(kit, count={"epsilon": 0.2})
    kit.let_out("count")
    kit.file.write_text(f"{kit.file.read_text('utf-8')}\n{tables}", "utf-8")
    assert once in Page(kit.config, kit.study, [], Units(168, "7"), NO_COPIES)._counts()[-1]


def test_columns_that_differ_are_on_the_page_and_in_the_check(fedct: Fedct, kit: Kit) -> None:
    study, data = kit.config.study / "study.toml", kit.config.data.source
    study.write_text(study.read_text("utf-8") + '\n[columns]\nmay-be-missing = ["chol"]\n', "utf-8")
    lines = [line.split(",") for line in data.read_text("utf-8").splitlines()]
    lines[0][lines[0].index("chol")] = "ward"
    data.write_text("".join(",".join(line) + "\n" for line in lines), "utf-8")
    page = said(fedct, kit)
    assert "Silos may lack these columns: 'chol'" in page
    assert "Missing for all records, as the study allows: 'chol'" in page
    assert "Left out: 'ward'" in page
    check = words(fedct("silo", "check", kit.folder, "--offline").out)
    assert "records: 12 of 13 columns of the study are there" in check
    assert "column 'chol' is not there, as the study allows" in check
