"""How soon a SuperNode looks for the next question: at once while a study asks, seldom while nobody does.

Flower 1.41 sleeps 3 s after a look that found nothing, and half a second between two looks for the agent's answer: most
of a round's time, and 34 MB a day of a silo that nobody asks. Needs the standard library alone; ``keep_pace`` touches
Flower's insides.
"""

import importlib
import time
from collections.abc import Callable
from typing import Any, Final

SHORTEST_SECONDS: Final = 0.2
IDLE_SECONDS: Final = 20.0
"""The longest a question waits at the coordinator. Well below the silence after which the link counts as lost."""
_SHARE: Final = 0.05
"""Of the time since the last question."""
_ANSWER_SHARE: Final = 0.02
"""The same while the agent works: such looks stay in this process."""
_SHORTEST_ANSWER_SECONDS: Final = 0.02
_ANSWER_SECONDS: Final = 0.5


class Pace:
    """The pauses of one SuperNode. Times are those of the ``clock``, in seconds.

    Stands in for the module ``time`` in Flower's loop, and so has all that this has, but for ``sleep``.

    >>> pace = Pace(clock=lambda: 60.0)
    >>> pace.pause(3), pace.pause(0.5)
    (0.2, 0.02)
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], object] = time.sleep
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._asked = clock()
        self._held = 0.0

    def held(self, seconds: float) -> None:
        """Note for how long the coordinator kept the last look open: so much of the pause after it is over."""
        self._held = seconds

    def asked(self) -> None:
        """Note that a question has come."""
        self._asked = self._clock()

    def pause(self, flowers: float) -> float:
        """Seconds to sleep in place of ``flowers``, by which it can be told what is waited for."""
        waited = self._clock() - self._asked
        if flowers <= _ANSWER_SECONDS:
            return min(max(_ANSWER_SHARE * waited, _SHORTEST_ANSWER_SECONDS), _ANSWER_SECONDS)
        held, self._held = self._held, 0.0
        return max(min(max(_SHARE * waited, SHORTEST_SECONDS), IDLE_SECONDS) - held, 0.0)

    def sleep(self, seconds: float) -> None:
        """Sleep as long as ``pause`` says."""
        self._sleep(self.pause(seconds))

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


def keep_pace(pace: Pace) -> None:
    """From now on this process's SuperNode looks for questions and answers at this pace."""
    module: Any = importlib.import_module("flwr.supernode.start_client_internal")
    module.time = pace
    look_for_parts_soon()


def look_for_parts_soon() -> None:
    """Look again soon for the parts of a message that are still under way, where Flower waits a second."""
    module: Any = importlib.import_module("flwr.supercore.inflatable.inflatable_utils")
    module.pull_objects.__kwdefaults__["initial_backoff"] = SHORTEST_SECONDS
