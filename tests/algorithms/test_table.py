"""Every algorithm in the table, put together from a run config."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedct_flwr.algorithms import ALGORITHMS
from fedct_flwr.algorithms.checks import OF_SOME
from fedct_flwr.algorithms.fedct import LabelSharing, Qualified
from fedct_flwr.config.run import RunConfig
from fedct_flwr.consensus.counting import Ballot
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, ConfigError, HardLabels, VoteCounts
from tests.sentences import sentence

CLASSES = 3
EXAMPLES = 4

VOTE_SHARING = {name: entry for name, entry in ALGORITHMS.items() if issubclass(entry, LabelSharing)}
SOFT = {"prediction-consensus", "dd", "fedmd"}
LABEL_SHARING = {name: entry for name, entry in VOTE_SHARING.items() if name not in SOFT}

every_algorithm = pytest.mark.parametrize("algorithm", list(LABEL_SHARING))
some_votes = st.lists(
    st.lists(st.integers(ABSTAIN, CLASSES - 1), min_size=EXAMPLES, max_size=EXAMPLES), min_size=1, max_size=6
)


def decide(votes: Sequence[Sequence[int]], algorithm: str) -> HardLabels:
    """What an algorithm makes of silos' votes in a first round."""
    method = LABEL_SHARING[algorithm]()
    cast = students if method.votes else partial(np.array, dtype=LABEL_DTYPE)
    ballots: list[Ballot] = [(f"silo-{i}", cast(vote)) for i, vote in enumerate(votes)]
    consensus = method.consensus(CLASSES)
    nothing_yet = np.full(len(votes[0]), ABSTAIN, dtype=LABEL_DTYPE)
    state = consensus.init([silo for silo, _ in ballots])
    targets, _ = consensus.apply(ballots, nothing_yet, state, np.random.default_rng(0))
    return targets


def students(labels: Sequence[int]) -> VoteCounts:
    """What two students of a silo vote that agree on these labels, and not where there is none."""
    row = {ABSTAIN: [1, 1, 0], **{c: 2 * np.eye(CLASSES, dtype=np.int32)[c] for c in range(CLASSES)}}
    return np.array([row[label] for label in labels], dtype=np.int32)


@every_algorithm
@given(votes=some_votes)
def test_targets_are_labels_of_the_study_or_abstentions(algorithm: str, votes: list[list[int]]) -> None:
    targets = decide(votes, algorithm)
    assert targets.shape == (EXAMPLES,)
    assert targets.dtype == LABEL_DTYPE
    assert set(targets.tolist()) <= {ABSTAIN, *range(CLASSES)}


@pytest.mark.parametrize("algorithm", list(VOTE_SHARING))
def test_every_algorithm_cites_its_paper(algorithm: str) -> None:
    words = (VOTE_SHARING[algorithm].consensus.__doc__ or "").split()
    assert any("arXiv" in word or "ibid" in word for word in words)


@pytest.mark.parametrize("quorum", [0.0, 1.7, float("nan")])
def test_a_quorum_that_is_no_share_is_refused_when_the_rule_is_made(quorum: float) -> None:
    with pytest.raises(ConfigError, match=r"^quorum is .*: set it above 0, and to 1 at most$"):
        Qualified(quorum)


@pytest.mark.parametrize(
    ("wrong", "meant"), [("fedctt", "fedct"), ("FedCT", "fedct"), ("fedct-qualifid", "fedct-qualified")]
)
def test_an_unknown_algorithm_is_answered_with_the_nearest(wrong: str, meant: str) -> None:
    said = sentence(ConfigError, RunConfig.from_flower, {"study": "s", "data": "d", "algorithm": wrong})
    assert said == f"unknown algorithm {wrong!r}: did you mean {meant!r}?"


def test_an_algorithm_like_no_other_is_answered_with_all_there_are() -> None:
    with pytest.raises(ConfigError, match=f"there are {', '.join(ALGORITHMS)}"):
        RunConfig.from_flower({"study": "s", "data": "d", "algorithm": "xyz"})


def test_algorithms_that_share_probabilities_have_a_target_for_each_silo_and_no_others_have() -> None:
    for name, entry in VOTE_SHARING.items():
        found = entry().consensus(CLASSES)
        assert (found.targets is not None) is (found.trust is not None) is entry.kind.for_numbers is (name in SOFT)


def test_algorithms_that_ask_once_have_one_round_whatever_the_default_is() -> None:
    for name in ALGORITHMS:
        config = RunConfig.from_flower({"study": "s", "data": "d", "algorithm": name})
        assert (config.rounds == 1) is (name in {"fedkt", "pate", "dp-pate", "draw", "count"})


def test_settings_of_some_algorithms_are_those_that_one_names_and_another_does_not() -> None:
    of_run = RunConfig.defaults_of_run().keys()
    used = {key for algorithm in ALGORITHMS.values() for key in algorithm.uses() if key in of_run}
    assert used - {"protection", "student", "student-params"} == OF_SOME
