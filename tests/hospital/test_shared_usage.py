"""Limits over several studies about the same records: real gates, real logs, one folder, several processes."""

import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.config.silo import RecordsSettings, SiloConfig
from fedct_flwr.datasets.study_folder import read_study
from fedct_flwr.hospital.approval import approve, terms_digest
from fedct_flwr.hospital.egress_log import EgressLog
from fedct_flwr.hospital.gate import Held
from fedct_flwr.hospital.log_entry import Event, Used
from fedct_flwr.hospital.shared_usage import SharedUsage, spent_epsilon
from fedct_flwr.privacy.budget import DATA_SET
from fedct_flwr.privacy.events import pure
from fedct_flwr.privacy.ledger import BudgetExceeded, Ledger, common_budget
from fedct_flwr.privacy.ledger_file import LedgerError
from fedct_flwr.silo.release import own_budget
from fedct_flwr.types import Refusal
from fedct_flwr.wire.messages import to_record
from tests.hospital.gates import CODE, KEY, RUN, Silo
from tests.hospitals import write_silo_folder

MANY = {"max_rounds": 100, "max_queries": 1000, "max_bytes": 100_000}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "common"


@pytest.fixture
def study(tmp_path: Path, folder: Path) -> Callable[..., Silo]:
    """One study's silo folder, whose limits over all studies are these."""

    def made(name: str, *, privacy: dict[str, Any] | None = None, **limits: float) -> Silo:
        shared = {"folder": str(folder), **{key.replace("_", "-"): value for key, value in limits.items()}}
        file = write_silo_folder(tmp_path / name, records=shared, privacy=privacy or {})
        config = SiloConfig.read_toml(file)
        config = config.model_copy(update={"silo": name})
        silo = Silo(config, read_study(config.study), config.state)
        with EgressLog.open(silo.state, config.silo, KEY) as log:
            approve(log, config, silo.study)
        return silo

    return made


def ask(silo: Silo, number: int, size: int = 5) -> Refusal | bytes:
    """A whole round: what leaves."""
    with silo.gate() as gate:
        try:
            return silo.ask(gate, number, size, silo=silo.config.silo)
        except Held as held:
            return held.reason


def counted(folder: Path) -> tuple[Used, int]:
    return SharedUsage(folder, "", {}).spent()


def spend(silo: Silo, epsilon: float, **common: None) -> None:
    with Ledger(silo.state, **{"common": common_budget(silo.config), **common}) as ledger:
        ledger.charge("study", DATA_SET, own_budget(silo.config), pure(epsilon))


def test_two_studies_share_a_limit_of_labels(study: Callable[..., Silo], folder: Path) -> None:
    heart, lung = study("heart", max_queries=12), study("lung", max_queries=12)
    assert isinstance(ask(heart, 1), bytes)
    assert isinstance(ask(lung, 1), bytes)
    # Each has a limit of its own of a million; together they have two labels left.
    assert ask(heart, 2) is Refusal.LIMIT
    assert ask(lung, 2) is Refusal.LIMIT
    assert isinstance(ask(lung, 3, size=2), bytes)
    total, studies = counted(folder)
    assert (total.queries, total.rounds, studies) == (12, 3, 2)
    # All bytes that left are counted, those of refusals too.
    left = [entry.bytes for silo in (heart, lung) for entry in silo.entries()]
    assert total.bytes == sum(left)
    assert sum(entry.event is Event.REFUSED for silo in (heart, lung) for entry in silo.entries()) == 2


@pytest.mark.parametrize(
    ("limits", "field"),
    [({"max_rounds": 2}, "max-rounds"), ({"max_queries": 10}, "max-queries"), ({"max_bytes": 90}, "max-bytes")],
)
def test_each_total_has_a_limit_and_the_log_names_it(
    study: Callable[..., Silo], limits: dict[str, int], field: str, caplog: pytest.LogCaptureFixture
) -> None:
    one, other = study("one", **limits), study("other", **limits)
    answers = [ask(one, 1), ask(other, 1), ask(one, 2), ask(other, 2)]
    assert answers[-1] is Refusal.LIMIT
    assert isinstance(answers[0], bytes)
    assert f"({field} under [records] in silo.toml): stop here, or raise it and approve that" in caplog.text


def test_where_it_cannot_be_counted_nothing_leaves(
    study: Callable[..., Silo], folder: Path, wording: SnapshotAssertion
) -> None:
    silo = study("one", **MANY)
    assert isinstance(ask(silo, 1), bytes)
    with silo.gate() as gate:
        payload = gate.admit(to_record(silo.request(2)), RUN, CODE)
        (folder / "ledger.mark").write_bytes(b"another\n")
        assert gate.release(to_record(silo.reply(2, silo="one")), payload, RUN, CODE) is None
        with pytest.raises(Held) as held:
            gate.admit(to_record(silo.request(3)), RUN, CODE)
    assert (held.value.reason, held.value.record) == (Refusal.LEDGER, None)
    refused = [entry for entry in silo.entries() if entry.event is Event.REFUSED]
    assert [(entry.reason, entry.bytes) for entry in refused] == [("LEDGER", 0)] * 2
    # And no agent starts.
    with pytest.raises(LedgerError) as caught, silo.gate():
        pass
    assert str(caught.value) == wording


@pytest.mark.parametrize("mounted", ["nothing", "an old copy", "another folder"])
def test_a_folder_that_is_lost_as_a_whole_gives_nothing_back(
    study: Callable[..., Silo], folder: Path, tmp_path: Path, mounted: str
) -> None:
    silo, other = study("one", **MANY), study("other", **MANY)
    assert isinstance(ask(silo, 1), bytes)
    shutil.copytree(folder, tmp_path / "old")
    assert isinstance(ask(other, 1), bytes)
    assert isinstance(ask(silo, 2), bytes)
    kept = folder.rename(tmp_path / "kept")
    if mounted == "an old copy":
        shutil.copytree(tmp_path / "old", folder)
    elif mounted == "another folder":
        SharedUsage(folder, "a", MANY).charge(Used(90, 900, 90_000))

    with pytest.raises(LedgerError, match=r"Only if there is no backup, remove .*/state/shared-"), silo.gate():
        pass
    usage = SharedUsage.of(silo.config)
    assert usage
    with pytest.raises(LedgerError):
        usage.spent()
    # And none that is at work when it happens goes on.
    if folder.exists():
        shutil.rmtree(folder)
    kept.rename(folder)
    with silo.gate() as gate:
        payload = gate.admit(to_record(silo.request(3)), RUN, CODE)
        shutil.rmtree(folder)
        assert gate.release(to_record(silo.reply(3, silo="one")), payload, RUN, CODE) is None
        assert not folder.exists()


def test_all_studies_means_all_whatever_each_of_them_limits(study: Callable[..., Silo], folder: Path) -> None:
    protected = {"protection": "dp-linear", "delta": 1e-5}
    one = study("one", epsilon=1.0, privacy={**protected, "epsilon": 1.0})
    other = study("other", privacy={**protected, "epsilon": 5.0})
    none = study("none")
    spend(one, 0.4)
    spend(other, 4.5)
    for silo in (one, other, none):
        assert spent_epsilon(silo.config) == pytest.approx(4.9, abs=0.01)
    with pytest.raises(BudgetExceeded):
        spend(one, 0.4)
    # A refusal tells of no record; the first question that is let in does.
    assert ask(none, 1, size=2_000) is Refusal.QUERY
    assert spent_epsilon(one.config) == pytest.approx(4.9, abs=0.01)
    assert isinstance(ask(none, 1), bytes)
    assert [spent_epsilon(silo.config) for silo in (one, other, none)] == [math.inf] * 3


def test_what_a_study_spent_or_released_before_it_named_the_folder_counts_when_its_agent_starts(
    study: Callable[..., Silo], tmp_path: Path
) -> None:
    silo = study("one", privacy={"protection": "dp-linear", "epsilon": 5.0, "delta": 1e-5})
    spend(silo, 2.0, common=None)
    with silo.gate():
        assert spent_epsilon(silo.config) == pytest.approx(2.0, abs=0.01)
    bare = study("bare")
    alone = replace(bare, config=bare.config.model_copy(update={"records": RecordsSettings()}))
    with EgressLog.open(bare.state, "bare", KEY) as log:
        approve(log, alone.config, alone.study)
    assert isinstance(ask(alone, 1), bytes)
    assert spent_epsilon(silo.config) == pytest.approx(2.0, abs=0.01)
    with bare.gate():
        assert spent_epsilon(silo.config) == math.inf


def test_the_limits_and_the_folder_are_approved(study: Callable[..., Silo], tmp_path: Path) -> None:
    silo = study("one", max_queries=12)
    digests = {terms_digest(silo.config, silo.study)}
    for change in ({"max_queries": 13}, {"folder": tmp_path / "elsewhere"}, {"folder": None, "max_queries": 1_000_000}):
        records = silo.config.records.model_copy(update=change)
        digests.add(terms_digest(silo.config.model_copy(update={"records": records}), silo.study))
    assert len(digests) == 4
