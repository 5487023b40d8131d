"""The public set to draw, as a user asks for it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Drawn:
    """A public set to draw, as ``public`` of ``simulate()``, where no real one exists.

    Its ``rows`` examples are drawn from counts of each column's values in the silos' records, with noise. At real silos
    these counts are ``(epsilon, delta)``-DP for a record, or for a patient with a group column, apart from what labels
    cost; with ``epsilon`` 0 none are used, and values spread evenly. ``dictionary`` is a file (TOML, a frictionless
    Table Schema, REDCap's CSV) or a mapping of columns to their form: ``{"age": {"kind": "integer", "range": [18,
    100]}}``. Without one, ranges and categories come from all tables, with a PrivacyWarning.
    """

    epsilon: float = 1.0
    dictionary: Path | str | Mapping[str, Mapping[str, Any]] | None = None
    rows: int = 2000
    delta: float = 1e-5

    def settings(self) -> dict[str, Any]:
        """The values of the run config that lead to it."""
        given = self.dictionary or ""
        return {
            "public": "drawn",
            "draw-epsilon": float(self.epsilon),
            "draw-rows": self.rows,
            "draw-dictionary": json.dumps({"columns": given}) if isinstance(given, Mapping) else str(given),
            **({"draw-delta": self.delta} if self.epsilon else {}),
        }
