"""What a model from elsewhere may not hold: an index that leads compiled code out of bounds.

What the arrays of a model hold, scikit-learn's predictors believe without looking, so it is looked at here, type by
type. XGBoost's models are checked before they are read, see ``boosted``.
"""

import sys
from typing import Any, Final

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier
from sklearn.ensemble._forest import ForestClassifier, ForestRegressor
from sklearn.ensemble._hist_gradient_boosting.binning import _BinMapper
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import OneHotEncoder
from sklearn.svm import SVC
from sklearn.tree import (
    BaseDecisionTree,
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    ExtraTreeRegressor,
)
from sklearn.tree._tree import Tree

_KERNELS: Final = ("linear", "poly", "rbf", "sigmoid")
_CLASSIFYING: Final = (DecisionTreeClassifier, ExtraTreeClassifier)
_REGRESSING: Final = (DecisionTreeRegressor, ExtraTreeRegressor)
MOST_JOBS: Final = 256
"""Threads that a model may say it predicts with. An operating system that cannot start them ends the process."""


def is_xgboosts(name: str, part: Any) -> bool:
    """Whether it is of XGBoost's type of this name."""
    # Whoever has not imported XGBoost, which is an extra, has no object of it.
    xgboost = sys.modules.get("xgboost")
    return xgboost is not None and isinstance(part, getattr(xgboost, name))


def check(part: Any) -> None:
    """Raise ValueError for what would lead compiled code out of bounds.

    By type alone: attributes are whatever the file says.
    """
    # What has not been trained, such as the pattern of a forest's trees, predicts nothing.
    own = vars(part)
    jobs = own.get("n_jobs")
    require(jobs is None or (type(jobs) is int and abs(jobs) <= MOST_JOBS))
    if isinstance(part, BaseDecisionTree):
        if "tree_" in own:
            _check_tree(part.tree_, part.n_features_in_)
    elif isinstance(part, ForestClassifier | ForestRegressor):
        if "estimators_" in own:
            # One value for each leaf, or one for each class.
            trees = _CLASSIFYING if isinstance(part, ForestClassifier) else _REGRESSING
            require(all(type(tree) in trees for tree in part.estimators_))
            require(all(tree.n_features_in_ == part.n_features_in_ for tree in part.estimators_))
    elif isinstance(part, GradientBoostingClassifier):
        if "estimators_" in own:
            _check_stages(part)
    elif isinstance(part, HistGradientBoostingClassifier):
        if "_predictors" in own:
            _check_histograms(part)
    elif isinstance(part, SVC):
        if "support_vectors_" in own:
            _check_support_vectors(part)
    elif isinstance(part, KNeighborsClassifier):
        _check_neighbors(part)
    elif isinstance(part, OneHotEncoder):
        if "categories_" in own:
            _check_categories(part)
    elif is_xgboosts("XGBClassifier", part):
        require("_Booster" not in own or is_xgboosts("Booster", part._Booster))


def _check_tree(tree: Any, num_features: int) -> None:
    require(type(tree) is Tree and type(num_features) is int)
    # Boosting reads one value for each node.
    require(tree.n_outputs == 1 and tree.max_n_classes >= 1)
    # As long as memory was taken for; then what is read of the nodes is theirs.
    require(0 < tree.node_count <= tree.capacity)
    left, right, feature = tree.children_left, tree.children_right, tree.feature
    inner = left != -1
    require_below(left, right, inner)
    require(bool((feature[inner] >= 0).all() and (feature[inner] < num_features).all()))


def _check_stages(boosting: Any) -> None:
    trees, num_features = boosting.estimators_, boosting.n_features_in_
    require(trees.ndim == 2 and all(type(tree) is DecisionTreeRegressor for tree in trees.flat))
    require(all(type(tree.tree_) is Tree and tree.n_features_in_ == num_features for tree in trees.flat))
    # The trees add to what this one begins with, a column for each tree of a stage.
    require(type(boosting.init_) is DummyClassifier or boosting.init_ == "zero")
    require(boosting._raw_predict_init(np.zeros((1, num_features))).shape == (1, trees.shape[1]))


def _check_histograms(boosting: Any) -> None:
    # Neither encoders in front, which change the number of features, nor categories, which are bits at an index.
    require(type(boosting.n_features_in_) is int and boosting._preprocessor is None and "_in_fit" not in vars(boosting))
    require(type(boosting._bin_mapper) is _BinMapper and not np.any(boosting._bin_mapper.is_categorical_))
    for tree in (tree for trees in boosting._predictors for tree in trees):
        require(type(tree) is TreePredictor)
        _check_nodes(tree.nodes, boosting.n_features_in_)


def _check_neighbors(neighbors: Any) -> None:
    own = vars(neighbors)
    if "_fit_X" not in own:
        require("_tree" not in own and "_fit_method" not in own)
        return
    require(type(neighbors._fit_X) is np.ndarray and isinstance(neighbors.metric, str))
    # Its search tree is built anew, from examples and classes.
    neighbors.fit(neighbors._fit_X, neighbors.classes_[neighbors._y])


def _check_categories(encoder: Any) -> None:
    """A category's position is where SciPy writes a one."""
    require(encoder.handle_unknown == "ignore" and encoder._infrequent_enabled is False)
    require(encoder._drop_idx_after_grouping is None)
    require(encoder._n_features_outs == [len(known) for known in encoder.categories_])
    # Found by bisection.
    require(all(known.dtype.kind == "f" and (np.diff(known) > 0).all() for known in encoder.categories_))


def _check_nodes(nodes: Any, num_features: int) -> None:
    inner = nodes["is_leaf"] == 0
    require(len(nodes) > 0 and not nodes["is_categorical"].any())
    require_below(nodes["left"].astype(np.int64), nodes["right"].astype(np.int64), inner)
    require(bool((nodes["feature_idx"][inner] >= 0).all() and (nodes["feature_idx"][inner] < num_features).all()))


def require_below(left: Any, right: Any, inner: Any) -> None:
    """Every inner node's children come after it, as they do in all trees that grow: no circle, none out of bounds."""
    own = np.flatnonzero(inner)
    for child in (left[inner], right[inner]):
        require(bool((child > own).all() and (child < len(left)).all()))


def _check_support_vectors(machine: Any) -> None:
    # With a kernel that is computed elsewhere, or examples in a sparse format, indices are read that nothing checks.
    require(isinstance(machine.kernel, str) and machine.kernel in _KERNELS and machine._sparse is False)
    vectors, classes = machine.support_vectors_, len(machine._n_support)
    pairs = classes * (classes - 1) // 2
    require(classes > 1 and len(machine._probA) == len(machine._probB))
    require(vectors.ndim == 2 and (machine._n_support >= 0).all() and machine._n_support.sum() == len(vectors))
    require(vectors.shape[1] == machine.n_features_in_ and machine.support_.shape == (len(vectors),))
    require(machine._dual_coef_.shape == (classes - 1, len(vectors)) and machine._intercept_.shape == (pairs,))
    require(all(len(values) in (0, pairs) for values in (machine._probA, machine._probB)))
    require(len(machine.classes_) == classes)


def require(holds: bool) -> None:
    """Raise ValueError for what does not hold."""
    if not holds:
        raise ValueError("Out of bounds")
