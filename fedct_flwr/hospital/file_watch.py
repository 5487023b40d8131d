"""An agent's checks once a second, during all other work: a withdrawn approval, and whether anything may leave.

In a thread of its own: training takes hours, and a SuperNode that hangs is waited for. A withdrawal stands in the log
within a second all the same, where no file that is lost undoes it.
"""

import contextlib
import hashlib
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self, TypeAlias

from fedct_flwr.files import digest_of
from fedct_flwr.hospital.agent_status import STALE, Shut, StatusFile, sentence_of
from fedct_flwr.hospital.approval import put_down
from fedct_flwr.hospital.egress_log import EgressLog
from fedct_flwr.hospital.log_entry import is_revoked
from fedct_flwr.learners.catalog import LANGUAGE
from fedct_flwr.learners.language import located
from fedct_flwr.silo.own import OwnSilo
from fedct_flwr.text.printable import logger
from fedct_flwr.types import LearnerError

_Files: TypeAlias = Callable[[], Iterable[Path | None]]


class FileWatch:
    """The files that decide what may leave, by their contents: made before any of them is read, but for ``silo.toml``.

    Of a folder in the study's folder, such as one of images, it is the folder's own time: it is asked for before each
    decision, and what lies deeper was read once, when the agent started.
    """

    def __init__(self, file: Path, content: bytes, decides: _Files, records: Iterable[Path | None] = ()) -> None:
        """``file`` was read as ``content``; ``decides`` names the others that decide, ``records`` those of data."""
        self._file, self._decides, self._files_of_records = file, decides, [*filter(None, records)]
        self._before = {**self._now(), file: hashlib.sha256(content).hexdigest()}
        self._records = self._of_records()

    @classmethod
    def of_study(cls, own: OwnSilo) -> Self:
        """The files of a silo that co-trains."""
        config, data, learner = own.config, own.config.data, own.config.learner

        def decides() -> set[Path | None]:
            files = {config.egress_key, *config.approvers.values(), data.test_file, data.query}
            with contextlib.suppress(OSError):
                files.update(config.study.iterdir())
            with contextlib.suppress(OSError, LearnerError):
                folder = str(learner.params.get("folder", ""))
                files.update(located(folder).iterdir() if learner.name in LANGUAGE else ())
            return files

        return cls(own.file, own.content, decides, (data.source, data.opt_out))

    def unchanged(self) -> bool:
        """Whether all are as they were at the start."""
        return self._now() == self._before

    def records_unchanged(self) -> bool:
        """Whether the silo's records are, which decide nothing of what may leave: they are new each night at some.

        So too the list of patients who have opted out.
        """
        return self._of_records() == self._records

    def _of_records(self) -> list[str]:
        return [_contents(path) for path in self._files_of_records]

    def _now(self) -> dict[Path, str]:
        return {path: _contents(path) for path in {self._file, *filter(None, self._decides())}}


def _contents(path: Path) -> str:
    """Digest of a file; for a folder its own time, and for neither nothing."""
    try:
        return digest_of(path) if path.is_file() else str(path.stat().st_mtime_ns)
    except OSError:
        return ""


_SECONDS: Final = 1.0


@dataclass
class SiloWatch:
    """Watches one silo: its ``log``, its ``files`` and whether its ``status`` can be written, which hears of them."""

    log: EgressLog
    state: Path
    files: FileWatch
    status: StatusFile
    say: Callable[[str], None]
    _shut: str = ""
    _stale: bool = False
    _withdrawn: bool = False

    def start(self, stop: threading.Event) -> None:
        """Watch until ``stop`` is set."""
        threading.Thread(target=self._run, args=(stop,), name="watch", daemon=True).start()

    def _run(self, stop: threading.Event) -> None:
        while not stop.wait(_SECONDS):
            try:
                self._look()
            except Exception:
                logger.exception("An unexpected error while the agent looked after its approval")

    def _look(self) -> None:
        self._put_down_withdrawal()
        writable = self.log.writable(doubtful=self.status.failed)
        shut = Shut.FILES if not self.files.unchanged() else "" if writable else Shut.LOG
        if shut and shut != self._shut:
            self.say(sentence_of(shut))
        elif self._shut and not shut:
            self.say("something may leave again")
        stale = not self.files.records_unchanged()
        if stale and not self._stale:
            self.say(STALE)
        self._shut, self._stale = shut, stale
        self.status.put(shut=shut, stale=stale)

    def _put_down_withdrawal(self) -> None:
        if not is_revoked(self.state):
            self._withdrawn = False
        elif not self._withdrawn:
            # Until it can be written, the gate finds the file. One that cannot be removed is written down once.
            before = self.log.chain.number
            try:
                put_down(self.log, self.state)
            except Exception:
                logger.exception("The withdrawn approval, or the file that says so, cannot be put down")
            self._withdrawn = self.log.chain.number > before
            if self._withdrawn:
                self.say("the approval is withdrawn: nothing leaves")
