"""How a run ended, as ``--json`` prints it."""

from collections.abc import Sequence
from statistics import fmean

from fedct_flwr.algorithms.table import Algorithm, what_leaves
from fedct_flwr.cli import documents
from fedct_flwr.config import RunConfig
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.scoring import measure_of
from fedct_flwr.simulation.scoreboard import METHODS, SiloScores, comparable, means, of_global_models
from fedct_flwr.text.printable import plain


def run_document(
    folder: RunFolder,
    config: RunConfig,
    algorithm: Algorithm,
    rows: Sequence[SiloScores],
    seconds: float,
    verdict: documents.Verdict,
) -> documents.Run:
    """The run for programs, with the rows and their mean."""
    complete, left = comparable(rows, METHODS), what_leaves(algorithm, folder.quantity)
    mean: documents.MeanScores = plain(
        {
            "own": means(complete, "own", METHODS),
            "pooled": means(complete, "pooled", METHODS),
            "bytes_sent": fmean(row.bytes_sent for row in rows),
            "silos": len(complete),
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
        "measure": measure_of(folder.quantity).name,
        "silos": plain(list(rows)),
        "mean": mean,
        "global_models": of_global_models(folder),
        "verdict": verdict,
    }
