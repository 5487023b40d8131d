"""How soon a SuperNode looks again."""

import importlib
from pathlib import Path
from typing import Any

import pytest

from fedct_flwr.hospital.link import SILENT_SECONDS
from fedct_flwr.hospital.pace import IDLE_SECONDS, SHORTEST_SECONDS, Pace, keep_pace
from fedct_flwr.hospital.short_calls import _EXTRA_SECONDS, LONGEST_WAIT, Wait

QUESTION, ANSWER = 3, 0.5
"""What Flower 1.41 sleeps while it waits for either."""


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("waited", "pause"), [(0, SHORTEST_SECONDS), (2, SHORTEST_SECONDS), (60, 3), (300, 15), (9999, IDLE_SECONDS)]
)
def test_the_longer_nobody_asks_the_longer_is_the_pause(waited: float, pause: float) -> None:
    clock = Clock()
    pace = Pace(clock)
    clock.now = waited
    assert pace.pause(QUESTION) == pytest.approx(pause)


def test_after_a_question_the_next_is_found_soon() -> None:
    clock = Clock()
    pace = Pace(clock)
    clock.now = 9999
    pace.asked()
    assert pace.pause(QUESTION) == SHORTEST_SECONDS
    # What the agent has answered is noticed in this process, and nearly at once.
    assert pace.pause(ANSWER) <= SHORTEST_SECONDS / 10


def test_an_agent_that_works_long_is_looked_after_as_often_as_flower_does() -> None:
    clock = Clock()
    pace = Pace(clock)
    clock.now = 3600
    assert pace.pause(ANSWER) == ANSWER


def test_an_idle_silo_is_never_silent_so_long_that_its_link_counts_as_lost() -> None:
    assert 2 * IDLE_SECONDS < SILENT_SECONDS
    # Nor while a call waits for a question, not even one that is given up.
    assert LONGEST_WAIT + _EXTRA_SECONDS < SILENT_SECONDS


def test_after_a_look_that_was_kept_open_there_is_no_more_pause_than_before() -> None:
    clock = Clock()
    pace = Pace(clock)
    clock.now = 300
    pace.held(5)
    assert pace.pause(ANSWER) == ANSWER
    assert pace.pause(QUESTION) == pytest.approx(10)
    assert pace.pause(QUESTION) == pytest.approx(15)
    pace.held(40)
    assert pace.pause(QUESTION) == 0


def test_flowers_loop_sleeps_at_this_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = importlib.import_module("flwr.supernode.start_client_internal")
    parts: Any = importlib.import_module("flwr.supercore.inflatable.inflatable_utils")
    # Put back after the test; a newer Flower without one of them fails here.
    monkeypatch.setattr(module, "time", module.time)
    monkeypatch.setitem(parts.pull_objects.__kwdefaults__, "initial_backoff", 1)
    slept: list[float] = []
    keep_pace(Pace(lambda: 0.0, slept.append))
    module.time.sleep(QUESTION)
    assert slept == [SHORTEST_SECONDS]
    assert module.time.monotonic() > 0
    assert parts.pull_objects.__kwdefaults__["initial_backoff"] == SHORTEST_SECONDS
    source = Path(module.__file__).read_text(encoding="utf-8")
    assert source.count("time.sleep(3)") == 1
    assert source.count("time.sleep(0.5)") == 2


def broken_off(wait: Wait, most: int, seconds: float) -> tuple[int, float]:
    """How many calls broke off in so many seconds on a line that ends them after ``most``, and how long they took."""
    calls, passed, lost = 0, 0.0, 0.0
    while passed < seconds:
        if wait.seconds > most:
            took = wait.seconds + _EXTRA_SECONDS
            wait.broke_off()
            calls, lost = calls + 1, lost + took
        else:
            took = float(wait.seconds)
            wait.came_back()
        passed += took
    return calls, lost


@pytest.mark.parametrize("most", [7, 12, 29, 30, 39])
def test_a_line_that_ends_long_calls_is_seldom_tried_with_longer_ones(most: int) -> None:
    """It broke off a call every few minutes for as long as the process lived, and a question waited a minute."""
    wait, day = Wait(), 24 * 3600.0
    broken_off(wait, most, day)
    calls, lost = broken_off(wait, most, day)
    assert calls <= 90
    assert lost < 0.03 * day
    # Once the line lets them be, calls take their time again.
    assert broken_off(wait, LONGEST_WAIT, 3 * day)[0] == 0
    assert wait.seconds == LONGEST_WAIT
    wait.broke_off()
    for _ in range(LONGEST_WAIT // 2):
        wait.came_back()
    assert wait.seconds == LONGEST_WAIT, "one fault is soon forgotten"
