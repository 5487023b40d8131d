"""What XGBoost's models from elsewhere may hold, checked before XGBoost sees a byte of them.

Its reader follows indices while it reads: one forged byte of a node's parent ends the process. All that XGBoost reads
without looking is compared here: lengths, indices, numbers of classes, trees and threads.
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from fedct_flwr.models.indices import MOST_JOBS, require, require_below
from fedct_flwr.models.ubjson import decode

_PATCHING: Final = threading.Lock()
_OBJECTIVES: Final = frozenset(
    {"binary:hinge", "binary:logistic", "binary:logitraw", "multi:softmax", "multi:softprob"}
)
_ROOT: Final = (1 << 31) - 1
"""The parent of a node without one, and what a node that was pruned has for a feature."""
_OF_NODES: Final = {
    **dict.fromkeys(("base_weights", "loss_changes", "split_conditions", "sum_hessian"), ">f4"),
    **dict.fromkeys(("left_children", "parents", "right_children", "split_indices"), ">i4"),
    **dict.fromkeys(("default_left", "split_type"), "u1"),
}
_OF_CATEGORIES: Final = ("categories", "categories_nodes", "categories_segments", "categories_sizes")


@contextmanager
def checked() -> Iterator[None]:
    """Within, in all threads, each booster that is read is checked first: raises ValueError for what does not hold."""
    from xgboost import Booster

    with _PATCHING:
        original = Booster.__setstate__

        def read(booster: Booster, state: dict[str, Any]) -> None:
            handle = state["handle"]
            # Of this very type: XGBoost takes any writable memory, and what is checked must be what it reads.
            require(type(handle) is bytearray)
            check(bytes(handle))
            original(booster, state)

        Booster.__setstate__ = read  # type: ignore[method-assign, assignment]
        try:
            yield
        finally:
            Booster.__setstate__ = original  # type: ignore[method-assign]


def check(content: bytes) -> None:
    """Raise ValueError for what no classifier of XGBoost's writes, or what would lead it out of bounds."""
    try:
        _check(decode(content))
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError("No classifier of XGBoost's") from error


def _check(said: Any) -> None:
    require(set(said) == {"Config", "Model"})
    config, model = said["Config"]["learner"], said["Model"]["learner"]
    params, objective = model["learner_model_param"], model["objective"]
    # Where they are said twice, XGBoost takes now one and now the other.
    require(config["learner_model_param"] == params and config["objective"] == objective)
    require(objective["name"] in _OBJECTIVES and config["learner_train_param"]["objective"] == objective["name"])
    classes, num_features = _number(params["num_class"]), _number(params["num_feature"])
    groups = max(1, classes)
    require(_number(params["num_target"]) == 1 and params["base_score"].count(",") in (0, groups - 1))
    if objective["name"].startswith("multi:"):
        require(classes > 1 and _number(objective["softmax_multiclass_param"]["num_class"]) == classes)
    else:
        require(classes < 2)
    for threads in ("n_jobs", "nthread"):
        require(_number(config["generic_param"][threads].removeprefix("-")) <= MOST_JOBS)
    require(config["learner_train_param"]["booster"] == config["gradient_booster"]["name"] == "gbtree")
    require(config["learner_train_param"]["multi_strategy"] == "one_output_per_tree")
    require(model["gradient_booster"]["name"] == "gbtree")
    trees = model["gradient_booster"]["model"]
    require(config["gradient_booster"]["gbtree_model_param"] == trees["gbtree_model_param"])
    _check_trees(trees, groups, num_features)


def _check_trees(model: Mapping[str, Any], groups: int, num_features: int) -> None:
    trees, own, begins = model["trees"], model["gbtree_model_param"], model["iteration_indptr"]
    require(type(trees) is list and len(trees) > 0)
    require(_number(own["num_trees"]) == len(trees) == len(model["tree_info"]))
    require(all(type(group) is int and 0 <= group < groups for group in model["tree_info"]))
    # Where each round's trees begin.
    each = _number(own["num_parallel_tree"]) * groups
    require(each > 0 and list(begins) == list(range(0, len(trees) + 1, each)) and begins[-1] == len(trees))
    require(not any(len(values) for values in model["cats"].values()))
    for number, tree in enumerate(trees):
        require(tree["id"] == number)
        _check_tree(tree, num_features)


def _check_tree(tree: Mapping[str, Any], num_features: int) -> None:
    params, left, right = tree["tree_param"], tree["left_children"], tree["right_children"]
    nodes = _number(params["num_nodes"])
    require(
        nodes > 0 and all(tree[name].shape == (nodes,) and tree[name].dtype == of for name, of in _OF_NODES.items())
    )
    require(bool((tree["default_left"] <= 1).all()) and not tree["split_type"].any())
    require(all(len(tree[name]) == 0 for name in _OF_CATEGORIES))
    require(_number(params["num_feature"]) == num_features and _number(params["size_leaf_vector"]) in (0, 1))
    inner, feature, parents = left != -1, tree["split_indices"], tree["parents"]
    require(bool((right[~inner] == -1).all()))
    require_below(left, right, inner)
    require(bool((feature[inner] >= 0).all() and (feature[inner] < num_features).all()))
    pruned = feature[1:] == _ROOT
    require(feature[0] != _ROOT and _number(params["num_deleted"]) == pruned.sum())
    require(parents[0] == _ROOT and bool((parents[1:] >= 0).all() and (parents[1:] < nodes).all()))
    # One way leads to each node that is left.
    above = np.flatnonzero(inner)
    require(1 + 2 * len(above) == nodes - pruned.sum() and bool((left[inner] != right[inner]).all()))
    require(bool((parents[left[inner]] == above).all() and (parents[right[inner]] == above).all()))


def _number(said: str) -> int:
    require(said.isascii() and said.isdecimal() and len(said) < 10)
    return int(said)
