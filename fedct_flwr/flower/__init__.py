"""Flower, and all that depends on its insides: its programs, the loopback, and the patches that close a hole."""

from typing import TYPE_CHECKING

from fedct_flwr.front_door import importing

if TYPE_CHECKING:
    from fedct_flwr.flower.engine import check_ray, run_on_engine
    from fedct_flwr.flower.loopback import run_in_process

__all__ = ["check_ray", "run_in_process", "run_on_engine"]

__getattr__ = importing(__name__)
