"""How a run ended, as ``--json`` prints it."""

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from fedct_flwr.algorithms.table import what_leaves
from fedct_flwr.config import RunConfig
from fedct_flwr.coordinator.algorithm import Algorithm
from fedct_flwr.datasets.inspection import Finding
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.runs.score_notes import notes
from fedct_flwr.runs.scores import SiloScores, comparable, means
from fedct_flwr.simulation.scoreboard import of_global_models
from fedct_flwr.text.printable import plain


def finding_document(found: Finding) -> dict[str, Any]:
    """A finding of the inspection of tables for programs."""
    return {
        "code": found.code,
        "severity": found.severity.value,
        "column": found.column,
        "silo": found.silo,
        "said": found.said,
        "fix": found.fix,
    }


def run_document(
    folder: RunFolder,
    config: RunConfig,
    algorithm: Algorithm,
    rows: Sequence[SiloScores],
    seconds: float,
    verdict: dict[str, Any],
    findings: Sequence[Finding] = (),
) -> dict[str, Any]:
    """The run for programs, with the rows and their mean, and the ``findings`` about its data."""
    method = config.method
    left = what_leaves(algorithm, folder.quantity, secure=method.in_sums, noisy=method.noise_in_shares)
    counted = {test: [row.silo for row in comparable(rows, test)] for test in ("own", "pooled")}
    mean: dict[str, Any] = plain(
        {
            "own": means(rows, "own"),
            "pooled": means(rows, "pooled"),
            "bytes_sent": fmean(row.bytes_sent for row in rows),
            "silos": len(counted["pooled"] or counted["own"]),
            "own_silos": len(counted["own"]),
        }
    )
    return {
        "study": config.study,
        "algorithm": config.algorithm,
        "run_folder": str(folder.path),
        "seconds": seconds,
        "rounds": len(folder.rounds()),
        "fixed_point": folder.read_json("result.json").get("fixed_point"),
        "leaves": f"{left} and test scores" if config.report_scores else left,
        "measure": folder.outcome.measure.name,
        "silos": plain(list(rows)),
        "mean": mean,
        "global_models": of_global_models(folder),
        "findings": [finding_document(found) for found in findings],
        "notes": notes(rows),
        "verdict": verdict,
    }
