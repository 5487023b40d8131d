"""Runs in other people's tools: MLflow follows a run, a Research Object Crate packs it. Neither sees records."""

from typing import TYPE_CHECKING

from fedct_flwr.front_door import importing

if TYPE_CHECKING:
    from fedct_flwr.integrations.mlflow import MLflow, check_mlflow

__all__ = ["MLflow", "check_mlflow"]

__getattr__ = importing(__name__)
