"""The coordinator: rounds, the exchange with silos, the roster, the global model."""

from typing import TYPE_CHECKING

from fedct_flwr.front_door import importing

if TYPE_CHECKING:
    from fedct_flwr.coordinator.joint import JointTraining
    from fedct_flwr.coordinator.label_rounds import (
        add_global_model,
        check_delta,
        check_learners,
        check_noise,
        check_protection,
        learners_of,
        log_cost,
        make_student,
        run_label_rounds,
    )
    from fedct_flwr.coordinator.noisy_sums import NoisySums, noisy_scores
    from fedct_flwr.coordinator.questions import no_targets
    from fedct_flwr.coordinator.summing import NOT_IN_SUM, Lost, Sums, opened, real_terms, sum_terms

__all__ = [
    "NOT_IN_SUM", "JointTraining", "Lost", "NoisySums", "Sums", "add_global_model", "check_delta", "check_learners",
    "check_noise", "check_protection", "learners_of", "log_cost", "make_student", "no_targets", "noisy_scores",
    "opened", "real_terms", "run_label_rounds", "sum_terms",
]  # fmt: skip

__getattr__ = importing(__name__)
