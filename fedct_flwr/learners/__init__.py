"""Learners: what a silo trains. Any scikit-learn classifier is one."""

from typing import TYPE_CHECKING

from fedct_flwr.front_door import importing

if TYPE_CHECKING:
    from fedct_flwr.learners.automatic import Automatic, AutomaticRegressor, Views
    from fedct_flwr.learners.build import build_learner, named_learners
    from fedct_flwr.learners.feature_pipelines import views_for
    from fedct_flwr.learners.language import Sentences, Tokens, reading_params, same_folder, unusual
    from fedct_flwr.learners.meeting import Meeting, together
    from fedct_flwr.learners.networks import AUGMENTATIONS, mend_torchvision
    from fedct_flwr.learners.own_table import Table, table_for
    from fedct_flwr.learners.plain import as_estimator
    from fedct_flwr.learners.safeguard import Lesson, NetworkSafeguard
    from fedct_flwr.learners.soft import COURSES, check_in_turn, check_soft
    from fedct_flwr.learners.stacked import Stacks
    from fedct_flwr.learners.survival import ByFunction, SurvivalLearner, survival_learner
    from fedct_flwr.learners.text import transformer_for
    from fedct_flwr.learners.torch_net import TorchLearner, num_values
    from fedct_flwr.learners.trained_model import dumps, read_object, with_plain_numbers
    from fedct_flwr.learners.trained_network import described, preprocessing_in
    from fedct_flwr.learners.transformer import embedded

__all__ = [
    "AUGMENTATIONS", "COURSES", "Automatic", "AutomaticRegressor", "ByFunction", "Lesson", "Meeting",
    "NetworkSafeguard", "Sentences", "Stacks", "SurvivalLearner", "Table", "Tokens", "TorchLearner", "Views",
    "as_estimator", "build_learner", "check_in_turn", "check_soft", "described", "dumps", "embedded",
    "mend_torchvision", "named_learners", "num_values", "preprocessing_in", "read_object", "reading_params",
    "same_folder", "survival_learner", "table_for", "together", "transformer_for", "unusual", "views_for",
    "with_plain_numbers",
]  # fmt: skip

__getattr__ = importing(__name__)
