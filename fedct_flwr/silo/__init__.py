"""One round at a silo: its site, what is trained, what is released, what is kept."""

from typing import TYPE_CHECKING

from fedct_flwr.front_door import importing

if TYPE_CHECKING:
    from fedct_flwr.silo.judgment import Judgment, facts_of
    from fedct_flwr.silo.noisy_sum import (
        NoiseAdder,
        charge_simulated,
        count_plan,
        drawn_set,
        noisy_counts,
        noisy_gradient,
        plan_of,
        together_in,
        with_noise,
    )
    from fedct_flwr.silo.numbers import with_numbers, with_shares
    from fedct_flwr.silo.own import OwnSilo, judgment_of, own_context, read_once, real_site
    from fedct_flwr.silo.release import (
        Answering,
        Purse,
        Release,
        account,
        account_of,
        approve_budget,
        by_students,
        own_budget,
        settings_digest,
    )
    from fedct_flwr.silo.simulated import add_in_sum, run_folder_of, simulated_context, simulated_silo, simulated_site
    from fedct_flwr.silo.warm_up import train_alone, warm_up_alone
    from fedct_flwr.silo.weights import train_on

__all__ = [
    "Answering", "Judgment", "NoiseAdder", "OwnSilo", "Purse", "Release", "account", "account_of", "add_in_sum",
    "approve_budget", "by_students", "charge_simulated", "count_plan", "drawn_set", "facts_of", "judgment_of",
    "noisy_counts", "noisy_gradient", "own_budget", "own_context", "plan_of", "read_once", "real_site", "run_folder_of",
    "settings_digest", "simulated_context", "simulated_silo", "simulated_site", "together_in", "train_alone",
    "train_on", "warm_up_alone", "with_noise", "with_numbers", "with_shares",
]  # fmt: skip

__getattr__ = importing(__name__)
