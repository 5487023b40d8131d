"""Mushroom: is a mushroom of the families Agaricus and Lepiota poisonous (8,124 x 22 categories, 2,480 missing).

Source: "Mushroom", UCI Machine Learning Repository, 1981, https://doi.org/10.24432/C5959T (CC BY 4.0).
Abourayya et al., arXiv:2310.05696, App. E.3: 2,499 private records over 5 silos, 4,000 public, 1,625 test.
"""

from fedct_flwr.config import RunConfig
from fedct_flwr.datasets import cached_table
from fedct_flwr.datasets.federated import FederatedDataset
from fedct_flwr.datasets.pooled import split_over_silos


def load(config: RunConfig) -> FederatedDataset:
    """What is missing is where the stalk has its root; it stays missing."""
    schema, records = cached_table.read("mushroom", "mushroom.csv.gz", "73/mushroom", "class", ("edible", "poisonous"))
    return split_over_silos("mushroom", schema, records, private=2_499, public=4_000, silos=5, config=config)
