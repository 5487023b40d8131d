"""Adult: does a person earn more than 50,000 dollars a year (US census of 1994, 48,842 x 14, 6,465 values missing).

Source: B. Becker, R. Kohavi, "Adult", UCI Machine Learning Repository, 1996, https://doi.org/10.24432/C5XW20
(CC BY 4.0). Abourayya et al., arXiv:2310.05696, App. E.3: 31,073 private records over 5 silos, 10,000 public, 7,769
test.
"""

from fedct_flwr.config import RunConfig
from fedct_flwr.datasets import cached_table
from fedct_flwr.datasets.federated import FederatedDataset
from fedct_flwr.datasets.pooled import split_over_silos


def load(config: RunConfig) -> FederatedDataset:
    """All records are split at random; UCI's own split into train and test is not used, as the sizes tell."""
    schema, records = cached_table.read(
        "adult", "adult.csv.gz", "2/adult", "income", ("<=50K", ">50K"), unused=["split"]
    )
    return split_over_silos("adult", schema, records, private=31_073, public=10_000, silos=5, config=config)
