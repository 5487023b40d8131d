"""Approvals: bound to everything that decides what may leave, and only the last word counts."""

from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from fedct_flwr.cli.silo.approval_page import Page, Units
from fedct_flwr.config.silo import SiloConfig
from fedct_flwr.datasets.study_folder import read_study
from fedct_flwr.hospital import approval
from fedct_flwr.hospital.approval import approve, current, language_model, revoke, terms_digest
from fedct_flwr.hospital.duplicates import DuplicateReport
from fedct_flwr.hospital.egress_log import EgressLog
from fedct_flwr.hospital.gate import Held
from fedct_flwr.hospital.log_entry import Event, LogEntry
from fedct_flwr.hospital.opening import open_gate
from fedct_flwr.types import LearnerError
from fedct_flwr.wire.messages import to_record
from tests.hospital.gates import KEY, Silo, open_silo


@pytest.fixture
def silo(tmp_path: Path) -> Silo:
    return open_silo(tmp_path, approved=False)


def changed(config: SiloConfig, section: str, **changes: Any) -> SiloConfig:
    table = getattr(config, section)
    return config.model_copy(update={section: table.model_copy(update=changes)})


CHANGES: dict[str, tuple[str, dict[str, Any]]] = {
    "learner": ("learner", {"name": "svm"}),
    "weight of pseudo-labels": ("learner", {"pseudo_weight": 2.0}),
    "seed": ("learner", {"seed": 1}),
    "rounds": ("policy", {"max_rounds": 101}),
    "kinds": ("policy", {"kinds": ("hard", "soft")}),
    "metrics": ("policy", {"metrics": True}),
    "what others count": ("policy", {"max_consensus_weight": 2.0}),
    "label": ("data", {"label": "thal"}),
    "mapping": ("data", {"mapping": {"1": "diseased"}}),
    "test split": ("data", {"test_file": None, "test_fraction": 0.25}),
    "protection": ("privacy", {"protection": "dp-linear"}),
    "destination": ("connection", {"superlink": "elsewhere:8000"}),
}


@pytest.mark.parametrize(("section", "changes"), CHANGES.values(), ids=CHANGES)
def test_whoever_changes_the_terms_changes_their_digest(section: str, changes: dict[str, Any], silo: Silo) -> None:
    before = terms_digest(silo.config, silo.study)
    assert len(before) == 32
    assert terms_digest(changed(silo.config, section, **changes), silo.study) != before


def test_another_silo_public_set_or_version_of_the_messages_changes_the_digest(
    silo: Silo, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = terms_digest(silo.config, silo.study)
    assert terms_digest(silo.config.model_copy(update={"silo": "budapest"}), silo.study) != before
    public = silo.config.study / "public.csv"
    public.write_text(public.read_text().replace("63.0", "64.0", 1))
    assert terms_digest(silo.config, read_study(silo.config.study)) != before
    monkeypatch.setattr(approval, "VERSION", approval.VERSION + 1)
    assert terms_digest(silo.config, silo.study) != before


@pytest.mark.parametrize("file", ["config.json", "model.safetensors", "chat_template.jinja"])
def test_nothing_leaves_by_another_language_model_than_was_approved(file: str, silo: Silo, tmp_path: Path) -> None:
    encoder, request = tmp_path / "encoder", silo.request()
    encoder.mkdir()
    for name, content in (("config.json", "{}"), ("tokenizer.json", "{}"), ("model.safetensors", "weights")):
        (encoder / name).write_text(content)
    config = changed(silo.config, "learner", name="sentence-embedding", params={"folder": str(encoder)})
    told = Page(config, silo.study, [], Units(1, "1"), DuplicateReport(1, 1, 0, 0)).sections()
    assert any((language_model(config) or "nothing") in line for line in told["The study"])
    with EgressLog.open(silo.state, silo.config.silo, KEY) as log:
        approve(log, config, silo.study)
        assert open_gate(config, silo.study, log, lambda: True).admit(to_record(request), 7, "") == request
        # An agent that starts again reads the folder anew.
        (encoder / file).write_text("of somebody else")
        with pytest.raises(Held, match="has not approved"):
            open_gate(config, silo.study, log, lambda: True).admit(to_record(request), 7, "")
        (encoder / "config.json").unlink()
        with pytest.raises(Held, match="has not approved"):
            open_gate(config, silo.study, log, lambda: True).admit(to_record(request), 7, "")
        with pytest.raises(LearnerError, match="no language model"):
            approve(log, config, silo.study)


def test_where_files_lie_where_its_supernode_listens_and_an_epsilon_of_no_promise_change_nothing(silo: Silo) -> None:
    before = terms_digest(silo.config, silo.study)
    assert terms_digest(changed(silo.config, "privacy", epsilon=3.0), silo.study) == before
    protected = changed(silo.config, "privacy", protection="dp-linear")
    raised = changed(protected, "privacy", epsilon=3.0)
    assert terms_digest(protected, silo.study) != terms_digest(raised, silo.study)
    moved = changed(silo.config, "data", file=Path("/elsewhere.csv"), test_file=Path("/test.csv"))
    moved = changed(moved, "connection", supernode="127.0.0.1:1", node_key=Path("/node.key"))
    assert terms_digest(moved.model_copy(update={"state": Path("/state")}), silo.study) == before


def test_an_approval_tells_what_the_approver_knew_and_which_software_was_there(silo: Silo) -> None:
    trusting = changed(silo.config, "learner", packages=("torch", "no-such-package", ""))
    report = DuplicateReport(168, 228, 1, 2, own_exact=5)
    with EgressLog.open(silo.state, silo.config.silo, KEY) as log:
        entry = approve(log, trusting, silo.study, report)
        assert (entry.event, entry.study, entry.public) == (
            Event.APPROVED, "heart-disease", silo.study.public.fingerprint.hex()
        )  # fmt: skip
        told = {"learner": "logistic-regression", "num-public": 228, "policy": silo.config.policy.logged}
        assert told.items() <= entry.details.items()
        assert entry.details["duplicates"] == {"exact": 1, "rounded": 2, "own-exact": 5, "alarm": True}
        assert entry.details["versions"] == {
            **{name: version(name) for name in ("fedct-flwr", "flwr", "scikit-learn", "torch")},
            "no-such-package": None,
            "": None,
        }
        terms = entry.details["terms"]
        again = approve(log, trusting, silo.study)
    assert (again.details["terms"], again.details["duplicates"]) == (terms, None)
    assert silo.verify().intact


def test_only_the_last_word_counts(silo: Silo) -> None:
    other = changed(silo.config, "policy", max_rounds=7)
    with EgressLog.open(silo.state, silo.config.silo, KEY) as log:
        approve(log, silo.config, silo.study)
        approve(log, other, silo.study)
        assert current(log.entries()) == terms_digest(other, silo.study)
        revoke(log)
        assert current(log.entries()) is None
        log.append(LogEntry(Event.OPENED))
        assert current(log.entries()) is None
        approve(log, silo.config, silo.study)
        log.append(LogEntry(Event.REFUSED))
    assert current(silo.entries()) == terms_digest(silo.config, silo.study)
