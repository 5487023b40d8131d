"""The ledger under restarts, replays, kill -9, two processes at once, and files that somebody lost or broke."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from dp_accounting import GaussianDpEvent, RandomizedResponseDpEvent, UnsupportedDpEvent, UnsupportedEventError
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.config.silo import SiloConfig
from fedct_flwr.privacy.budget import Budget
from fedct_flwr.privacy.events import pure
from fedct_flwr.privacy.ledger import BudgetExceeded, CommonBudget, Ledger
from fedct_flwr.privacy.ledger_file import LedgerError
from fedct_flwr.types import ConfigError, RunError
from tests.hospitals import write_silo_folder
from tests.sentences import sentence

ROOT = Path(__file__).parents[2]
ONE = Budget(1.0, 0.0)
TENTH = pure(0.1)
WHERE = ("study", "records")


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path) as ledger:
        yield ledger


def database(state: Path) -> Path:
    return state / "privacy" / "ledger.sqlite"


def charges(state: Path, study: str = "study") -> int:
    with Ledger(state) as ledger:
        spent = ledger.spent(study, "records")
        return spent.charges if spent else 0


def begin(state: Path, code: str, *more: str) -> subprocess.Popen[str]:
    """A Python process with ``ledger``, ``budget`` and ``pure`` at hand."""
    prelude = f"""
        import sys
        from pathlib import Path
        from fedct_flwr.privacy.budget import Budget
        from fedct_flwr.privacy.events import pure
        from fedct_flwr.privacy.ledger import BudgetExceeded, Ledger
        ledger = Ledger(Path({str(state)!r}))
    """
    script = textwrap.dedent(prelude) + textwrap.dedent(code)
    return subprocess.Popen(
        [sys.executable, "-c", script, *more],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )


class TestCharging:
    def test_ten_tenths_fit_and_the_eleventh_does_not(self, ledger: Ledger) -> None:
        for _ in range(10):
            ledger.charge(*WHERE, ONE, TENTH)
        with pytest.raises(BudgetExceeded, match="does not cover another release") as refused:
            ledger.charge(*WHERE, ONE, pure(1e-6))
        assert isinstance(refused.value, RunError)
        spent = ledger.spent(*WHERE)
        assert spent.charges == 10
        assert spent.epsilon.upper == pytest.approx(1.0)
        assert spent.budget == ONE

    def test_what_has_no_price_is_not_charged(self, ledger: Ledger) -> None:
        with pytest.raises(UnsupportedEventError):
            ledger.charge(*WHERE, ONE, UnsupportedDpEvent())
        with pytest.raises(BudgetExceeded):
            ledger.charge(*WHERE, ONE, RandomizedResponseDpEvent(0.0, 2))
        with pytest.raises(BudgetExceeded):
            ledger.charge(*WHERE, ONE, GaussianDpEvent(1e6))  # no epsilon at delta 0
        assert ledger.spent(*WHERE) is None

    def test_a_raised_budget_needs_an_approval(self, ledger: Ledger) -> None:
        ledger.charge(*WHERE, ONE, pure(0.9))
        for raised in (Budget(2.0, 0.0), Budget(1.0, 1e-5)):
            with pytest.raises(LedgerError, match="after use; approve it"):
                ledger.charge(*WHERE, raised, TENTH)
        ledger.approve(*WHERE, Budget(2.0, 0.0), "the ethics board")
        ledger.charge(*WHERE, Budget(2.0, 0.0), pure(1.0))
        assert ledger.spent(*WHERE).epsilon.upper == pytest.approx(1.9)
        with pytest.raises(LedgerError, match="already spent more than epsilon 1 at delta 0"):
            ledger.approve(*WHERE, ONE, "the ethics board")


class Killed(BaseException):
    """What ends a process ends its draw, and nobody hears of it."""


def killed() -> bytes:
    raise Killed


class TestStickyAnswers:
    def test_the_same_question_gets_the_same_answer_at_no_cost(self, tmp_path: Path) -> None:
        answers = []
        for drawn in (b"first", b"second"):
            with Ledger(tmp_path) as ledger:
                answers.append(ledger.answer(*WHERE, ONE, TENTH, b"round 1", lambda drawn=drawn: drawn))
        assert answers == [b"first", b"first"]
        assert charges(tmp_path) == 1

    def test_whether_a_question_was_answered_can_be_asked_for_nothing(self, tmp_path: Path, ledger: Ledger) -> None:
        assert ledger.answered(*WHERE, b"round 1") is None
        with pytest.raises(Killed):
            ledger.answer(*WHERE, ONE, TENTH, b"round 1", killed)
        assert ledger.answered(*WHERE, b"round 1") is None  # charged, and not drawn
        ledger.answer(*WHERE, ONE, TENTH, b"round 1", lambda: b"answer")
        assert ledger.answered(*WHERE, b"round 1") == b"answer"
        assert ledger.answered("other", "records", b"round 1") is None
        assert charges(tmp_path) == 1

    def test_noise_is_drawn_after_the_charge_and_a_draw_that_fails_has_used_it_up(self, ledger: Ledger) -> None:
        """That it failed may depend on its noise, and the coordinator hears of it."""

        def fails() -> bytes:
            raise ZeroDivisionError

        for drawn in (1, 2, 3):
            with pytest.raises(ZeroDivisionError):
                ledger.answer(*WHERE, ONE, TENTH, b"q" if drawn < 3 else b"another", fails)
            assert ledger.spent(*WHERE).charges == drawn
        assert ledger.answer(*WHERE, ONE, TENTH, b"q", lambda: b"later") == b"later"
        assert ledger.spent(*WHERE).charges == 4
        with pytest.raises(BudgetExceeded):
            ledger.answer(*WHERE, Budget(0.4, 0.0), TENTH, b"one more", fails)

    def test_of_two_draws_for_one_question_only_the_first_kept_leaves(self, tmp_path: Path) -> None:
        with Ledger(tmp_path) as slow, Ledger(tmp_path) as quick:

            def overtaken() -> bytes:
                assert quick.answer(*WHERE, ONE, TENTH, b"q", lambda: b"quick") == b"quick"
                return b"slow"

            assert slow.answer(*WHERE, ONE, TENTH, b"q", overtaken) == b"quick"
        assert charges(tmp_path) == 1

    def test_a_question_that_costs_something_else_now_is_another_question(self, ledger: Ledger) -> None:
        ledger.answer(*WHERE, ONE, TENTH, b"q", lambda: b"a")
        with pytest.raises(LedgerError, match="leaves out something"):
            ledger.answer(*WHERE, ONE, pure(0.01), b"q", lambda: b"b")


class TestUnusedCharges:
    """Of questions that were charged and never drawn for."""

    @pytest.fixture(autouse=True)
    def _unused(self, ledger: Ledger) -> None:
        with pytest.raises(Killed):
            ledger.answer(*WHERE, ONE, TENTH, b"q", killed)

    def test_they_pay_for_another_question_of_the_same_event_once(self, ledger: Ledger) -> None:
        assert ledger.answer(*WHERE, ONE, TENTH, b"other", lambda: b"a") == b"a"
        assert ledger.spent(*WHERE).charges == 1
        assert ledger.answer(*WHERE, ONE, TENTH, b"q", lambda: b"b") == b"b"
        assert ledger.answer(*WHERE, ONE, TENTH, b"third", lambda: b"c") == b"c"
        assert ledger.spent(*WHERE).charges == 3

    @pytest.mark.parametrize("price", [0.2, 0.01])
    def test_they_pay_for_no_other_event(self, ledger: Ledger, price: float) -> None:
        ledger.answer(*WHERE, ONE, pure(price), b"other", lambda: b"a")
        assert ledger.spent(*WHERE).charges == 2
        assert ledger.spent(*WHERE).epsilon.upper == pytest.approx(0.1 + price)

    def test_a_question_whose_price_has_changed_leaves_its_charge_to_the_next_of_that_event(
        self, ledger: Ledger
    ) -> None:
        assert ledger.answer(*WHERE, ONE, pure(0.05), b"q", lambda: b"a") == b"a"
        assert ledger.answer(*WHERE, ONE, TENTH, b"other", lambda: b"b") == b"b"
        assert ledger.spent(*WHERE).charges == 2

    def test_what_was_charged_without_a_question_was_released(self, tmp_path: Path) -> None:
        with Ledger(tmp_path / "new") as ledger:
            ledger.charge(*WHERE, ONE, TENTH)
            ledger.answer(*WHERE, ONE, TENTH, b"q", lambda: b"a")
            assert ledger.spent(*WHERE).charges == 2

    def test_of_two_draws_for_one_charge_the_second_is_charged_too(self, tmp_path: Path, ledger: Ledger) -> None:
        def overtaken() -> bytes:
            with Ledger(tmp_path) as quick:
                assert quick.answer(*WHERE, ONE, TENTH, b"other", lambda: b"quick") == b"quick"
            assert ledger.spent(*WHERE).charges == 1
            return b"slow"

        assert ledger.answer(*WHERE, ONE, TENTH, b"q", overtaken) == b"slow"
        assert ledger.spent(*WHERE).charges == 2
        assert ledger.answered(*WHERE, b"other") == b"quick"


class TestProcesses:
    @pytest.mark.parametrize("seen", [1, 7, 20])
    def test_a_process_killed_anywhere_has_paid_for_all_it_was_told(self, tmp_path: Path, seen: int) -> None:
        code = """
            for number in range(1, 100_000):
                ledger.charge("study", "records", Budget(1e6, 0.0), pure(0.001))
                print(number, flush=True)
        """
        with begin(tmp_path, code) as process:
            told = [process.stdout.readline() for _ in range(seen)]
            process.send_signal(signal.SIGKILL)
            # Not communicate: it passes over what has been read ahead.
            last = int([*told, *process.stdout.read().splitlines()][-1])
        assert last <= charges(tmp_path) <= last + 1

    def test_two_processes_at_once_cannot_overspend(self, tmp_path: Path) -> None:
        code = """
            sys.stdin.readline()
            charged = 0
            for _ in range(20):
                try:
                    ledger.charge("study", "records", Budget(1.5, 0.0), pure(0.1))
                    charged += 1
                except BudgetExceeded:
                    pass
            print(charged)
        """
        both = [begin(tmp_path, code) for _ in range(2)]
        for process in both:
            process.stdin.write("go\n")
            process.stdin.flush()
        told = [int(process.communicate()[0]) for process in both]
        assert sum(told) == 15 == charges(tmp_path)


def _corrupt(state: Path) -> None:
    content = bytearray(database(state).read_bytes())
    content[: len(content) // 2] = os.urandom(len(content) // 2)
    database(state).write_bytes(content)


def _forget_charges(state: Path) -> None:
    with sqlite3.connect(database(state)) as connection:
        connection.execute("DELETE FROM charges WHERE number = 2")
    connection.close()


def _unknown_event(state: Path) -> None:
    with sqlite3.connect(database(state)) as connection:
        connection.execute("""UPDATE charges SET event = '{"type": "Free"}' WHERE number = 1""")
    connection.close()


def _another_ledger(state: Path) -> None:
    with Ledger(state / "elsewhere") as other:
        for _ in range(5):
            other.charge(*WHERE, ONE, pure(0.01))
    shutil.copy(database(state / "elsewhere"), database(state))


FAULTS: dict[str, Callable[[Path], object]] = {
    "the file is gone": lambda state: database(state).unlink(),
    "the folder is gone": lambda state: shutil.rmtree(state / "privacy"),
    "the file is corrupt": _corrupt,
    "charges are missing": _forget_charges,
    "an unknown event": _unknown_event,
    "another ledger": _another_ledger,
    "the mark is gone": lambda state: (state / "ledger.mark").unlink(),
    "the mark is of another ledger": lambda state: (state / "ledger.mark").write_text("0123\n.."),
    "the mark is ahead": lambda state: (state / "ledger.mark").write_bytes((state / "ledger.mark").read_bytes() + b"."),
}


class TestFailsClosed:
    @pytest.mark.parametrize("fault", FAULTS)
    @pytest.mark.parametrize("running", [False, True], ids=["restarted", "running"])
    def test_nothing_is_released_when(self, tmp_path: Path, fault: str, running: bool) -> None:
        ledger = Ledger(tmp_path)
        for _ in range(3):
            ledger.charge(*WHERE, ONE, TENTH)
        ledger.answer(*WHERE, ONE, TENTH, b"q", lambda: b"a")
        ledger.close()
        if running and "mark" not in fault and "gone" not in fault:
            pytest.skip("SQLite does not look at a file's content again while it has it in memory")
        if running:
            assert ledger.spent(*WHERE).charges == 4
        FAULTS[fault](tmp_path)
        for _ in range(2):  # and it stays so
            assert sentence(LedgerError, ledger.charge, *WHERE, ONE, TENTH)
        if fault != "an unknown event":
            with pytest.raises(LedgerError):
                ledger.answer(*WHERE, ONE, TENTH, b"q", lambda: b"b")
            with pytest.raises(LedgerError):
                ledger.approve(*WHERE, Budget(5.0, 0.0), "somebody")
        ledger.close()

    def test_an_old_copy_that_was_put_back_is_noticed(self, tmp_path: Path) -> None:
        with Ledger(tmp_path) as ledger:
            ledger.charge(*WHERE, ONE, TENTH)
        old = database(tmp_path).read_bytes()
        with Ledger(tmp_path) as ledger:
            ledger.charge(*WHERE, ONE, TENTH)
        database(tmp_path).write_bytes(old)
        with Ledger(tmp_path) as ledger, pytest.raises(LedgerError, match="charges are missing"):
            ledger.charge(*WHERE, ONE, TENTH)

    def test_a_crash_between_commit_and_mark_is_made_good(self, tmp_path: Path) -> None:
        with Ledger(tmp_path) as ledger:
            for _ in range(3):
                ledger.charge(*WHERE, ONE, TENTH)
            mark = tmp_path / "ledger.mark"
            mark.write_bytes(mark.read_bytes()[:-1])
            ledger.charge(*WHERE, ONE, TENTH)
            assert mark.read_bytes().count(b".") == 4


def test_every_commit_is_synced_in_write_ahead_mode(ledger: Ledger) -> None:
    ledger.charge(*WHERE, ONE, TENTH)
    with ledger.transaction() as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)


def test_a_forked_process_opens_its_own(ledger: Ledger, tmp_path: Path) -> None:
    ledger.charge(*WHERE, ONE, TENTH)
    child = os.fork()
    if child == 0:
        try:
            ledger.charge(*WHERE, ONE, TENTH)
            os._exit(0)
        except BaseException:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    ledger.charge(*WHERE, ONE, TENTH)
    assert charges(tmp_path) == 3


# --- one budget over several studies


OWN = Budget(1.0, 0.0)


def shared_ledger(folder: Path, name: str, epsilon: float | None = 1.0) -> Ledger:
    """The shared_ledger of one study's silo folder, which shares a budget with others."""
    common = CommonBudget(folder / "common", Budget(epsilon, 0.0)) if epsilon else None
    return Ledger(folder / name, common=common)


def charge(one: Ledger, times: int, study: str = "study") -> None:
    with one:
        for _ in range(times):
            one.charge(study, "records", OWN, TENTH)


def spent(folder: Path) -> float:
    return CommonBudget(folder / "common", None).spent(0.0).upper


def own(folder: Path, name: str) -> int:
    with Ledger(folder / name) as one:
        found = one.spent("study", "records")
    return found.charges if found else 0


def test_two_studies_spend_one_budget(tmp_path: Path) -> None:
    heart, lung = shared_ledger(tmp_path, "heart"), shared_ledger(tmp_path, "lung")
    charge(heart, 6)
    charge(lung, 4)
    assert spent(tmp_path) == pytest.approx(1.0)
    for one in (heart, lung):
        with pytest.raises(BudgetExceeded, match=r"over all studies \(epsilon 1, delta 0, under \[records\]"):
            charge(one, 1)
    # Neither has charged what it may not release.
    assert (own(tmp_path, "heart"), own(tmp_path, "lung")) == (6, 4)
    assert spent(tmp_path) == pytest.approx(1.0)


def test_what_was_charged_before_counts_once(tmp_path: Path) -> None:
    charge(shared_ledger(tmp_path, "heart", epsilon=None), 5)
    for _ in range(3):
        charge(shared_ledger(tmp_path, "heart"), 1)
    assert spent(tmp_path) == pytest.approx(0.8)
    charge(shared_ledger(tmp_path, "lung"), 2)
    with pytest.raises(BudgetExceeded):
        charge(shared_ledger(tmp_path, "lung"), 1)


def test_a_folder_that_was_lost_ends_all_releases(tmp_path: Path) -> None:
    charge(shared_ledger(tmp_path, "heart"), 1)
    for path in (tmp_path / "common" / "privacy").iterdir():
        path.unlink()
    with pytest.raises(LedgerError, match="is gone, and was used"):
        charge(shared_ledger(tmp_path, "heart"), 1)
    assert own(tmp_path, "heart") == 1


@pytest.mark.parametrize(
    "records",
    [
        {"folder": "../common", "epsilon": 2.0},
        {"epsilon": 2.0},
        {"folder": "state"},
        {"folder": "../common", "epsilon": -1.0},
    ],
)
def test_what_promises_nothing_is_refused(
    tmp_path: Path, records: dict[str, object], wording: SnapshotAssertion
) -> None:
    said = sentence(ConfigError, lambda: SiloConfig.read_toml(write_silo_folder(tmp_path / "one", records=records)))
    assert said == wording
