"""A global model as ONNX, for programs without Python: from a table's columns to the class and its probabilities.

The input ``features`` is ``(n, columns)``: in double precision for tables (a category is its position among the
column's categories, NaN is missing), else in single precision. The outputs are ``label``, the number of the class, and
``probabilities`` ``(n, classes)`` if the model knows any. The description stands in the metadata under ``fedct``.
Models that read text have no such file, as a tokenizer is no graph, nor have those of numbers and times. Needs the
extra ``onnx``.
"""

import copy
import json
import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.compose import merge_models
from skl2onnx import convert_sklearn, update_registered_converter
from skl2onnx.common.data_types import FloatTensorType
from skl2onnx.common.shape_calculator import calculate_linear_classifier_output_shapes
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.pipeline import Pipeline
from sklearn.tree import DecisionTreeClassifier

from fedct_flwr.learners.catalog import package_of
from fedct_flwr.learners.sklearn import Relabeled, SklearnLearner, last_step
from fedct_flwr.models.loading import DESCRIPTION, Model, OnnxLearner, blank
from fedct_flwr.scoring.assessment import Recalibration
from fedct_flwr.types import ConfigError, DataError, Features, TrainingError

FEATURES: Final = "features"
LABEL: Final = "label"
PROBABILITIES: Final = "probabilities"
_OPSET: Final = 18
_ML_OPSET: Final = 3
_IR: Final = 9
_PREPARED: Final = "prepared"
_TREES: Final = (DecisionTreeClassifier, RandomForestClassifier, ExtraTreesClassifier)
_RECORDS: Final = 500
_VALUES: Final = 1 << 24
_GAPS: Final = 0.1
_ALIKE: Final = 1e-3
_TIE: Final = 1e-6
_WITH_GAPS: Final = " where values are missing", ", or train it with preprocessing = 'standard'"


def to_onnx(model: Model) -> bytes:
    """The model in ONNX format. Raises ConfigError where there is no converter for it."""
    if model.description.text:
        raise ConfigError("a model that reads text has no ONNX form, as its tokenizer is no graph: use 'fedct predict'")
    if model.schema.outcome.number:
        raise ConfigError("a model of numbers or times has no ONNX form: use 'fedct predict'")
    try:
        whole = _converted(model)
        entry = whole.metadata_props.add()
        entry.key, entry.value = DESCRIPTION, json.dumps(model.description.model_dump(by_alias=True))
        content: bytes = whole.SerializeToString()
        # A converter may still write an invalid graph.
        graph = OnnxLearner(content, "the file")
    except Exception as error:  # converters raise many types
        raise ConfigError(
            f"no converter makes ONNX of this model, a {_kind(model)} ({type(error).__name__}): use it with 'fedct "
            "predict'"
        ) from error
    for gaps, where, how in ((False, "", ""), (True, *_WITH_GAPS)):
        if _answers_otherwise(model, graph, gaps):
            raise ConfigError(
                f"no converter makes ONNX of this model, a {_kind(model)}, that answers the same{where}: use it with "
                f"'fedct predict'{how}"
            )
    return content


def _answers_otherwise(model: Model, graph: OnnxLearner, gaps: bool) -> bool:
    """Whether a file answers more than 1% of drawn records otherwise than its model, or where some cells are missing.

    A probability may differ by .001. Of a tie between classes, trees and the file may choose differently.
    """
    X = _drawn(model, gaps)
    try:
        expected, known = model.predict(X), model.probabilities(X)
    except TrainingError:
        # Of gaps, the model itself knows nothing.
        return not gaps
    try:
        labels, found = graph.predict(X), graph.probabilities(X, len(model.schema.classes))
    except (DataError, TrainingError):
        return True
    otherwise = labels != expected
    if known is not None and found is not None:
        rows = np.arange(len(X))
        if isinstance(model.learner, SklearnLearner) and isinstance(_core(model.learner.parts[1]), _TREES):
            otherwise &= known[rows, expected] - known[rows, labels] > _TIE
        otherwise |= ~(np.abs(found - known).max(axis=1) <= _ALIKE)
    return bool(otherwise.sum() > len(X) // 100)


def _drawn(model: Model, gaps: bool) -> Features:
    """Records ``(n, ...)`` by each column's quantiles and categories, as if it had to do with no other one."""
    shape, quantiles = model.description.shape, model.description.quantiles
    rng, n = np.random.default_rng(0), max(2, min(_RECORDS, _VALUES // math.prod(shape)))
    X = rng.random((n, *shape), dtype=np.float32)
    if not model.schema.columns:
        return X
    table = X.astype(np.float64)
    for at, column in enumerate(model.schema.columns):
        if column.categories is not None:
            table[:, at] = rng.integers(0, max(1, len(column.categories)), n)
        elif known := quantiles.get(column.name):
            # Codes and counts have no values in between.
            whole = [value for value in known if value == int(value)]
            between = np.interp(table[:, at], np.linspace(0, 1, len(known)), known)
            table[:, at] = rng.choice(whole, n) if len(whole) > len(known) / 2 else between
        else:
            table[:, at] = rng.normal(size=n)
    if gaps:
        table[rng.random(table.shape) < _GAPS] = np.nan
    return table


def _core(classifier: Any) -> Any:
    """The estimator that decides: of a pipeline the last step, of a search the one that it has found."""
    classifier = classifier.estimator_ if isinstance(classifier, Relabeled) else classifier
    return last_step(getattr(classifier, "best_estimator_", classifier))


def _send_missing(graph: "onnx.GraphProto", forest: Any) -> None:
    """Send missing values down the side of each split that the trees of ``forest`` send them."""
    trees = [each.tree_ for each in getattr(forest, "estimators_", [forest])]
    for node in graph.node:
        known = {attribute.name: attribute for attribute in node.attribute}
        if "nodes_missing_value_tracks_true" in known:
            places = zip(known["nodes_treeids"].ints, known["nodes_nodeids"].ints, strict=True)
            known["nodes_missing_value_tracks_true"].ints[:] = [
                int(trees[tree].missing_go_to_left[place]) for tree, place in places
            ]


def _kind(model: Model) -> str:
    learner = model.learner
    return learner.name if isinstance(learner, SklearnLearner) else type(learner).__name__


def _converted(model: Model) -> "onnx.ModelProto":
    learner: Any = model.learner
    example = blank(model.description)
    if isinstance(learner, SklearnLearner):
        transformer, classifier = learner.parts
        width, classes = _prepared(transformer, example).shape[1], len(model.description.classes)
        core = _classifier(classifier, width, classes)
    else:
        transformer = learner.transformer
        core = onnx.load_from_string(learner.to_onnx(_prepared(transformer, example), (LABEL, PROBABILITIES)))
    if (how := model.description.recalibration) and len(core.graph.output) > 1:
        _recalibrate(core.graph, how)
    core.ir_version = _IR
    if transformer is None and not isinstance(learner, SklearnLearner):
        _rename(core.graph, core.graph.input[0].name, FEATURES)
        core.graph.input[0].name = FEATURES
        return core
    before = _preprocessing(transformer, example.shape[1], core.opset_import)
    return merge_models(before, core, io_map=[(_PREPARED, core.graph.input[0].name)])


def _prepared(transformer: Any, example: Features) -> Features:
    return (example if transformer is None else transformer.transform(example)).astype(np.float32)


def _classifier(classifier: Any, width: int, classes: int) -> "onnx.ModelProto":
    """Scikit-learn's classifiers, XGBoost's and LightGBM's, on features in single precision."""
    numbers: Any = getattr(classifier, "classes_", None)
    relabeled = isinstance(classifier, Relabeled)
    classifier = classifier.estimator_ if relabeled else classifier
    boosted = package_of(type(classifier))
    if boosted == "xgboost":
        from onnxmltools.convert.xgboost.operator_converters.XGBoost import convert_xgboost

        _register(classifier, "XGBoostXGBClassifier", convert_xgboost)
    elif boosted == "lightgbm":
        from onnxmltools.convert.lightgbm.operator_converters.LightGbm import convert_lightgbm

        _register(classifier, "LightGbmLGBMClassifier", convert_lightgbm)
    if relabeled or (numbers is not None and boosted not in ("xgboost", "lightgbm")):
        classifier = _with_classes(classifier, numbers.astype(np.int64))
    core: onnx.ModelProto = convert_sklearn(
        classifier,
        initial_types=[(_PREPARED, FloatTensorType([None, width]))],
        options={id(classifier): {"zipmap": False}},
        target_opset={"": _OPSET, "ai.onnx.ml": _ML_OPSET},
    )
    if isinstance(last_step(classifier), _TREES):
        _send_missing(core.graph, last_step(classifier))
    # A vector, also where a converter makes one column of it.
    _rename(core.graph, LABEL, "column")
    core.graph.initializer.append(numpy_helper.from_array(np.array([-1]), "vector"))
    core.graph.node.append(helper.make_node("Reshape", ["column", "vector"], [LABEL]))
    if not hasattr(classifier, "predict_proba"):
        del core.graph.output[1:]
    elif numbers is not None and numbers.tolist() != [*range(classes)]:
        _place(core.graph, np.eye(classes, dtype=np.float32)[numbers])
    return core


def _with_classes(classifier: Any, numbers: Any) -> Any:
    """A copy that knows these classes: of a search what it has found, of a pipeline its last step."""
    classifier = copy.copy(getattr(classifier, "best_estimator_", classifier))
    if isinstance(classifier, Pipeline):
        *before, (name, last) = classifier.steps
        classifier.steps = [*before, (name, _with_classes(last, numbers))]
    else:
        lightgbm = type(classifier).__module__.startswith("lightgbm")
        setattr(classifier, "_classes" if lightgbm else "classes_", numbers)
    return classifier


def _place(graph: "onnx.GraphProto", places: Any) -> None:
    """Move probabilities of the known classes to their columns among all: ``places`` ``(known, classes)``, 0 or 1."""
    _rename(graph, PROBABILITIES, "known")
    graph.initializer.append(numpy_helper.from_array(places, "places"))
    graph.node.append(helper.make_node("MatMul", ["known", "places"], [PROBABILITIES]))
    graph.output[1].type.tensor_type.shape.dim[1].dim_value = places.shape[1]


def _rename(graph: "onnx.GraphProto", old: str, new: str) -> None:
    for node in graph.node:
        for names in (node.input, node.output):
            names[:] = [new if name == old else name for name in names]


def _recalibrate(graph: "onnx.GraphProto", how: Recalibration) -> None:
    """Make chances of the probabilities, as ``Recalibration.apply`` does, in their own precision."""
    _rename(graph, PROBABILITIES, "ranks")
    n, slope, intercepts = how.records, how.slope, how.intercepts
    steps = ("Mul", n), ("Add", 1), ("Div", n + len(intercepts)), ("Log", None), ("Mul", slope), ("Add", intercepts)
    for number, (kind, constant) in enumerate(steps):
        inputs = [f"logs_{number - 1}" if number else "ranks", *([f"by_{number}"] if constant is not None else [])]
        if constant is not None:
            graph.initializer.append(numpy_helper.from_array(np.array(constant, dtype=np.float32), inputs[1]))
        graph.node.append(helper.make_node(kind, inputs, [f"logs_{number}"]))
    graph.node.append(helper.make_node("Softmax", [f"logs_{number}"], [PROBABILITIES], axis=1))


def _register(classifier: Any, name: str, convert: Callable[..., Any]) -> None:
    """Have scikit-learn's converter use another package's for classifiers of this type."""
    update_registered_converter(
        type(classifier),
        name,
        calculate_linear_classifier_output_shapes,
        convert,
        options={"nocl": [True, False], "zipmap": [True, False, "columns"]},
    )


def _preprocessing(transformer: Any, columns: int, opsets: Any) -> "onnx.ModelProto":
    """The transformer of ``preprocessing.standard``, in its own arithmetic, up to the cast that learners begin with."""
    nodes, constants = [], []

    def constant(name: str, value: Any) -> str:
        constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def chosen(name: str, source: str, positions: list[int]) -> str:
        return node("Gather", [source, constant(f"{name}_columns", np.array(positions, np.int64))], name, axis=1)

    def filled(name: str, fill: Any) -> str:
        known = constant(f"{name}_fill", np.asarray(fill, dtype=np.float64))
        return node("Where", [node("IsNaN", [name], f"{name}_missing"), known, name], f"{name}_filled")

    parts = []
    numbers_alone = [("numeric", transformer, range(columns))] if transformer is not None else []
    for name, fitted, positions in getattr(transformer, "transformers_", numbers_alone):
        if not len(positions):
            continue
        imputer, *last = (step for _, step in fitted.steps)
        values = filled(chosen(name, FEATURES, list(positions)), imputer.statistics_)
        if not hasattr(fitted[-1], "categories_"):
            for scaler in last:
                centered = node("Sub", [values, constant("mean", scaler.mean_)], "centered")
                values = node("Div", [centered, constant("scale", scaler.scale_)], "scaled")
            parts.append(values)
            continue
        for number, categories in enumerate(last[0].categories_):
            if last[0].drop_idx_ is not None and (dropped := last[0].drop_idx_[number]) is not None:
                categories = np.delete(categories, dropped)
            known = constant(f"{name}_known_{number}", np.asarray(categories, dtype=np.int64)[None])
            # Positions of categories: in the older operator sets of some converters, only whole numbers are compared.
            value = chosen(f"{name}_value_{number}", values, [number])
            value = node("Cast", [value], f"{name}_whole_{number}", to=TensorProto.INT64)
            same = node("Equal", [value, known], f"{name}_is_{number}")
            parts.append(node("Cast", [same], f"{name}_hot_{number}", to=TensorProto.DOUBLE))
    together = node("Concat", parts, "together", axis=1) if parts else FEATURES
    node("Cast", [together], _PREPARED, to=TensorProto.FLOAT)
    features = helper.make_tensor_value_info(FEATURES, TensorProto.DOUBLE, [None, columns])
    prepared = helper.make_tensor_value_info(_PREPARED, TensorProto.FLOAT, [None, None])
    graph = helper.make_graph(nodes, "fedct", [features], [prepared], constants)
    return helper.make_model(graph, opset_imports=list(opsets), ir_version=_IR)
