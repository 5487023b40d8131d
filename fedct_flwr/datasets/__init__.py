"""Data sets: records of silos and a public set, from files, tables in memory or by name."""

from typing import TYPE_CHECKING

from fedct_flwr.front_door import importing

if TYPE_CHECKING:
    from fedct_flwr.datasets.dictionary import Dictionary
    from fedct_flwr.datasets.federated import FederatedDataset, SiloData
    from fedct_flwr.datasets.image_folder import (
        LabeledImages,
        check_room,
        holds_images,
        images_in,
        read_images,
        unused_in,
    )
    from fedct_flwr.datasets.inspection.cells import are_missing
    from fedct_flwr.datasets.loading import LOADERS, load
    from fedct_flwr.datasets.opt_out import each_left, ids_opted_out, images_left, records_left, said_of_opt_out
    from fedct_flwr.datasets.packed_tables import names_in_excel, names_in_parquet, read_excel, read_parquet
    from fedct_flwr.datasets.query import read_query
    from fedct_flwr.datasets.schema import FollowUp, Outcome
    from fedct_flwr.datasets.study_folder import read_study
    from fedct_flwr.datasets.table_files import read_table
    from fedct_flwr.datasets.tables import as_names, no_column

__all__ = [
    "LOADERS", "Dictionary", "FederatedDataset", "FollowUp", "LabeledImages", "Outcome", "SiloData", "are_missing",
    "as_names", "check_room", "each_left", "holds_images", "ids_opted_out", "images_in", "images_left", "load",
    "names_in_excel", "names_in_parquet", "no_column", "read_excel", "read_images", "read_parquet", "read_query",
    "read_study", "read_table", "records_left", "said_of_opt_out", "unused_in",
]  # fmt: skip

__getattr__ = importing(__name__)
