"""Run folders as a coordinator leaves them, without a run."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedct_flwr.runs.run_folder import RunFolder

SILOS = ("oslo", "rome", "cairo")
CLASSES = ("no", "yes")


def begin(path: Path, silos: Sequence[str] = SILOS, **settings: Any) -> RunFolder:
    """A run that has just begun."""
    facts = {"public_fingerprint": "ab" * 32, "num_public": 40, "classes": CLASSES, "silos": silos}
    folder = RunFolder.create(
        path, {"study": "hearts", "data": "heart-disease", "algorithm": "fedct", "seed": 0, **settings}, facts
    )
    # As when its coordinator has ended.
    folder.close()
    return folder


def add_round(folder: RunFolder, number: int, silos: Sequence[str] = SILOS, **changes: Any) -> None:
    """One round more, in which silo ``i`` sends ``100 + i`` bytes within ``i + 1`` seconds."""
    sent = {
        silo: {
            "bytes_sent": 100 + i,
            "seconds": i + 1.0,
            "agreement": 0.5 + 0.1 * number - 0.01 * i,
            "scores": {"pooled_balanced_accuracy": 0.6},
        }
        for i, silo in enumerate(silos)
    }
    record: dict[str, Any] = {
        "round": number,
        "seconds": 3.5,
        "queried": 40,
        "changed": 40 if number == 1 else 2,
        "abstained": 0,
        "agreement": 0.5 + 0.1 * number,
        "class_counts": dict(zip(CLASSES, (10, 30), strict=True)),
        "instruction_bytes": 80,
        "bytes_sent": sum(range(100, 100 + len(silos))),
        "silos": sent,
        "absent": {},
        "fixed_point": False,
        "churn": None if number == 1 else 0.05,
    }
    folder.append_round(record | changes)


def add_weights_round(folder: RunFolder, number: int, accuracy: float | None = None) -> None:
    """One round more of a run in which silos share weights."""
    sent = {silo: {"bytes_sent": 4000, "seconds": 1.0} for silo in SILOS}
    scores = None if accuracy is None else {"balanced_accuracy": accuracy}
    folder.append_round({"round": number, "silos": sent, "absent": {}, "scores": scores})


def add_scores(folder: RunFolder, silos: Sequence[str] = SILOS) -> None:
    """The scoreboard: silos have 0.6 alone, 0.7 together and 0.8 with all data; no test sets of their own."""
    pooled = {"local": 0.6, "federated": 0.7, "centralized": 0.8}
    rows = [{"silo": silo, "own": dict.fromkeys(pooled), "pooled": pooled, "bytes_sent": 100} for silo in silos]
    (folder.path / "scores.json").write_text(json.dumps(rows))


def finished(path: Path, rounds: int = 3, silos: Sequence[str] = SILOS, **settings: Any) -> RunFolder:
    """A run that is over, at a fixed point since its last round."""
    folder = begin(path, silos, **settings)
    for number in range(1, rounds + 1):
        add_round(folder, number, silos, fixed_point=number == rounds)
    add_scores(folder, silos)
    folder.finish("completed", fixed_point=rounds)
    return folder
