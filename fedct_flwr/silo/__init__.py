"""One round at a silo: its site, what is trained, what is released, what is kept."""

from typing import TYPE_CHECKING

from fedct_flwr import importing

if TYPE_CHECKING:
    from fedct_flwr.silo.noisy_sum import (
        NoiseAdder,
        charge_simulated,
        drawn_in,
        noisy_counts,
        noisy_gradient,
        plan_of,
        with_noise,
    )
    from fedct_flwr.silo.own import own_context, read_once
    from fedct_flwr.silo.release import Answering, Purse, Release, by_students, own_budget, settings_digest
    from fedct_flwr.silo.simulated import run_folder_of, simulated_context, simulated_silo
    from fedct_flwr.silo.simulated_sums import refused_sum, sums_at
    from fedct_flwr.silo.summing import Ready

__all__ = [
    "Answering", "NoiseAdder", "Purse", "Ready", "Release", "by_students", "charge_simulated", "drawn_in",
    "noisy_counts", "noisy_gradient", "own_budget", "own_context", "plan_of", "read_once", "refused_sum",
    "run_folder_of", "settings_digest", "simulated_context", "simulated_silo", "sums_at", "with_noise",
]  # fmt: skip

__getattr__ = importing(
    __name__,
    {
        "noisy_sum": (
            "NoiseAdder", "charge_simulated", "drawn_in", "noisy_counts", "noisy_gradient", "plan_of",
            "with_noise",
        ),
        "own": ("own_context", "read_once"),
        "release": ("Answering", "Purse", "Release", "by_students", "own_budget", "settings_digest"),
        "simulated": ("run_folder_of", "simulated_context", "simulated_silo"),
        "simulated_sums": ("refused_sum", "sums_at"),
        "summing": ("Ready",),
    },
)  # fmt: skip
