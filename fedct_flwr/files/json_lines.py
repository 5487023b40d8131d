"""Files of JSON objects, one a line, each with its round; may be read while they grow."""

import json
import os
from pathlib import Path
from typing import Any, Final, NamedTuple

from fedct_flwr.files.json_file import DAMAGED
from fedct_flwr.types import RunError

_MOST: Final = 1 << 63


class News(NamedTuple):
    """New lines; ``replaced`` where the file is another one than before, of which these are all the lines."""

    lines: list[bytes]
    replaced: bool


class JsonLines:
    """Reads each line once, however often it looks; a last line that is not whole yet is left for later.

    ``advice`` says what to do about a file that is damaged. Raises RunError for such a file, and for one that is there
    and cannot be read; one that is not there has no lines.
    """

    def __init__(self, path: Path, advice: str = "start a new run in another folder") -> None:
        self.path, self._advice = path, advice
        self.forget()

    def forget(self) -> None:
        """The next ``news`` are all lines."""
        self._file: int | None = None
        self._offset = 0

    def news(self) -> News:
        """What has been added since the last time."""
        try:
            with self.path.open("rb") as file:
                status = os.fstat(file.fileno())
                # A run that is resumed rewrites its logs, without what comes after its checkpoint.
                replaced = status.st_ino != self._file or status.st_size < self._offset
                if replaced:
                    self._file, self._offset = status.st_ino, 0
                file.seek(self._offset)
                content = file.read()
        except FileNotFoundError:
            self.forget()
            return News([], replaced=True)
        except OSError as error:
            raise RunError(f"cannot read {self.path}: {error.strerror}") from None
        whole = content[: content.rfind(b"\n") + 1]
        self._offset += len(whole)
        return News(whole.splitlines(), replaced)

    def records(self) -> list[dict[str, Any]]:
        """What the lines say that have been added since the last time."""
        return [self.record(line) for line in self.news().lines]

    def record(self, line: bytes) -> dict[str, Any]:
        """What a line says."""
        try:
            record = json.loads(line)
            number = int(record["round"])
            if not 0 <= number < _MOST:
                raise ValueError
            return {**record, "round": number}
        except DAMAGED:
            raise self.damaged() from None

    def damaged(self) -> RunError:
        """To be raised for records that are not what they should be; the next ``news`` are all lines."""
        self.forget()
        return RunError(f"{self.path} is damaged: {self._advice}")
