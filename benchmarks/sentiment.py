"""Tweets and movie reviews with human scores: is the writer pleased? For silos of one kind or of both.

C. J. Hutto, E. Gilbert, "VADER: A parsimonious rule-based model for sentiment analysis of social media text", ICWSM
2014: 4,200 tweets and 10,605 snippets of reviews, ``sentiment.csv.gz`` in ``FEDCT_DATA``. The label is score > 0.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, Final

import numpy as np

from benchmarks.data import federated, find
from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets.federated import FederatedDataset, SiloData
from fedct_flwr.datasets.schema import Column, Schema
from fedct_flwr.datasets.table_files import read_table
from fedct_flwr.seeding import generator
from fedct_flwr.types import LABEL_DTYPE, Examples

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
    """Five silos of 200 texts, 5,000 public ones of both domains, and test texts like each silo's own."""
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
    public = left[:PUBLIC]
    schema = Schema(("displeased", "pleased"), (Column("text", text=True),))
    return federated("sentiment", schema, silos, text[public][:, None], label[public])


SENTIMENT: Final[dict[str, Callable[[RunConfig], FederatedDataset]]] = {
    "sentiment": partial(load, False),
    "sentiment-by-domain": partial(load, True),
}
