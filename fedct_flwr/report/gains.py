"""Who has gained and who has lost, and what each silo makes of the consensus, as the run folder says it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from fedct_flwr.files.json_file import UNREADABLE
from fedct_flwr.report.figure import Table
from fedct_flwr.report.words import UNKNOWN
from fedct_flwr.types import RunError

_FILE: Final = "verdict.json"
_MODELS: Final = {"own": "its own", "co-trained": "co-trained"}


@dataclass(frozen=True)
class Gains:
    """In words: ``sentences`` on the silos together, ``warnings``, and a row for each silo that has said something."""

    sentences: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def read(cls, folder: Path) -> Self:
        """What a run folder says of it; nothing where it says nothing. Raises RunError for a damaged file."""
        path = folder / _FILE
        try:
            said = json.loads(path.read_text("utf-8"))
            sentences = (str(said[key]) for key in ("after_first_round", "at_the_end"))
            rows = tuple(_row(str(silo), facts) for silo, facts in said["judgments"].items())
            return cls(tuple(filter(None, sentences)), tuple(map(str, said["warnings"])), rows)
        except FileNotFoundError:
            return cls()
        except UNREADABLE:
            raise RunError(f"{path} is damaged: take it away, and the report goes without") from None

    @property
    def table(self) -> Table | None:
        """What each silo makes of the consensus."""
        columns = ["Silo", "Learner that it chose", "Weight of others' labels", "Model", "Why", "Own test records"]
        return Table(columns, [list(row) for row in self.rows], words=6) if self.rows else None


def _row(silo: str, facts: Mapping[str, Any]) -> tuple[str, ...]:
    test, weight = facts["own_test"], facts["weight"]
    return (
        silo,
        str(facts["learner"] or "the one named"),
        UNKNOWN if weight is None else f"{float(weight):g}",
        _MODELS.get(facts["model"], UNKNOWN),
        str(facts["why"] or UNKNOWN),
        f"{test['verdict']} ({float(test['gain']):+.3f}, p = {float(test['p']):.2g})" if test else UNKNOWN,
    )
