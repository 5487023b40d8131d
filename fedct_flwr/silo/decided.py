"""The guard's last decision, on the silo's disk: a silo that restarts in a run keeps or makes the same decisions.

Next to the judgment, for the silo itself alone. It is written once the answer has left, like the model: a question that
nobody took the answer to changes nothing.
"""

import base64
import hashlib
import json
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from fedct_flwr.files.atomic import write_atomically
from fedct_flwr.files.json_file import UNREADABLE
from fedct_flwr.learners.guard import Decision, Trust
from fedct_flwr.learners.out_of_fold import Evidence
from fedct_flwr.types import LABEL_DTYPE, Examples

_STORED: Final = np.dtype("<i2")


class Subject(NamedTuple):
    """What a decision is about: one of Flower's runs, the settings of the model, the public set, the silo's records."""

    run_id: int
    model_digest: bytes
    public_fingerprint: bytes
    private: Examples

    def facts(self) -> dict[str, Any]:
        """As the file has it; of the records a digest of their classes, which tells when some are added or gone."""
        records = hashlib.sha256(self.private.y.tobytes()).hexdigest()
        public = self.public_fingerprint.hex()
        return {"run": self.run_id, "model": self.model_digest.hex(), "public": public, "records": records}


def write(path: Path, subject: Subject, decision: Decision) -> None:
    """Write a decision. Raises OSError."""
    trust = decision.trust
    labels = base64.b64encode(decision.targets.astype(_STORED).tobytes()).decode()
    said = {
        "weight": trust.weight,
        "evidence": trust.evidence,
        "foreign": trust.foreign,
        "round": decision.round,
        "labels": labels,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps({**subject.facts(), **said}).encode())


def read(path: Path, subject: Subject, round_: int, *, resumed: bool) -> Decision | None:
    """The decision that ``write`` wrote, if it was made up to this round on the same subject.

    A run that is ``resumed`` has another number in Flower. None for a damaged file: the silo decides anew.
    """
    try:
        raw = json.loads(path.read_text("utf-8"))
        wanted = subject.facts()
        if resumed:
            wanted["run"] = raw["run"]
        if raw["round"] > round_ or any(raw[name] != value for name, value in wanted.items()):
            return None
        evidence = Evidence(*raw["evidence"]) if raw["evidence"] else None
        targets = np.frombuffer(base64.b64decode(raw["labels"]), dtype=_STORED).astype(LABEL_DTYPE)
        return Decision(Trust(raw["weight"], evidence, raw["foreign"]), targets, raw["round"])
    except UNREADABLE:
        return None
