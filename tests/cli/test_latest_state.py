"""A state folder that is not mounted, or of which an old copy was put back, gives back nothing that was spent."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from fedct_flwr.hospital.approval import approve
from fedct_flwr.hospital.latest_state import open_log, remember
from fedct_flwr.hospital.log_entry import LOG_FILE
from fedct_flwr.privacy.budget import DATA_SET, Budget
from fedct_flwr.privacy.events import pure
from fedct_flwr.privacy.ledger import Ledger
from fedct_flwr.types import RunError
from tests.cli.silos import YES, Fedct, Kit, agree_on_sums, words

FIRST = "There is no egress log here yet"


def approved(fedct: Fedct, kit: Kit) -> str:
    done = fedct("silo", "approve", kit.folder, *YES)
    assert done.code == 0, done.err
    return words(done.out)


@pytest.fixture
def worked(kit: Kit, tmp_path: Path) -> Kit:
    """A silo that has approved, let labels out, and ended its agent; ``old`` is a copy of its state from before."""
    with open_log(kit.config) as log:
        approve(log, kit.config, kit.study)
    shutil.copytree(kit.state, tmp_path / "old")
    with open_log(kit.config) as log:
        log.append(kit.released(1, 228, 151))
        remember(kit.config, log)
    return kit


@pytest.mark.parametrize("mounted", ["nothing", "an empty folder", "an old copy", "another silo's"])
def test_a_state_folder_that_lacks_a_line_lets_nothing_out(
    fedct: Fedct, worked: Kit, tmp_path: Path, mounted: str
) -> None:
    kept = worked.state.rename(tmp_path / "kept")
    if mounted == "an empty folder":
        worked.state.mkdir()
    elif mounted == "an old copy":
        shutil.copytree(tmp_path / "old", worked.state)
    elif mounted == "another silo's":
        shutil.copytree(kept, worked.state)
        (worked.state / LOG_FILE).write_bytes(b"{}\n" * 2)
    before = sorted(path.name for path in worked.state.glob("*")) if worked.state.exists() else None

    for command in (["start"], ["approve", *YES]):
        done = fedct("silo", command[0], worked.folder, *command[1:])
        assert done.code
        assert "line 2 of the egress log is gone" in words(done.err)
    assert "line 2, which keys remember, is gone" in words(fedct("silo", "check", worked.folder, "--offline").out)
    assert "the state folder is not the latest one" in words(fedct("silo", "status", worked.folder).out)
    # Nothing was made in what is not the silo's.
    assert before == (sorted(path.name for path in worked.state.glob("*")) if worked.state.exists() else None)

    shutil.rmtree(worked.state, ignore_errors=True)
    kept.rename(worked.state)
    assert FIRST not in approved(fedct, worked)


def test_what_is_lost_for_good_is_left_out_once_somebody_says_so(fedct: Fedct, worked: Kit) -> None:
    shutil.rmtree(worked.state)
    with pytest.raises(RunError, match=r"Only if there is none, remove .*egress\.seen and approve again"):
        open_log(worked.config)
    (worked.folder / "keys" / "egress.seen").unlink()
    assert FIRST in approved(fedct, worked)


def adds_noise_to_sums(kit: Kit) -> None:
    agree_on_sums(kit)
    kit.let_out("sum")
    kit.edit("sum-epsilon = 0.0", "sum-epsilon = 1.0")


@pytest.mark.parametrize("promises", [Kit.protect, adds_noise_to_sums])
def test_a_ledger_that_is_gone_with_its_mark_is_missed_by_the_log(
    fedct: Fedct, kit: Kit, promises: Callable[[Kit], None]
) -> None:
    promises(kit)
    approved(fedct, kit)
    with Ledger(kit.state) as ledger:
        ledger.charge("heart-disease", DATA_SET, Budget(1.0, 1e-5), pure(0.25))
    with open_log(kit.config) as log:
        log.append(kit.released(1, 228, 151))
    shutil.rmtree(kit.state / "privacy")
    (kit.state / "ledger.mark").unlink()
    with pytest.raises(RunError, match=r"the privacy ledger in .* is gone"):
        open_log(kit.config)
    assert "✗ privacy ledger: it is gone" in words(fedct("silo", "check", kit.folder, "--offline").out)
    assert "the state folder is not the latest one" in words(fedct("silo", "status", kit.folder).out)
