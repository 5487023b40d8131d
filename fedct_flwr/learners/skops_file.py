"""Trained models in skops format, written in a third of the time and of the bytes that skops takes.

It indents the JSON that describes a model, and Python's fast encoder does not indent. A thousand silos keep a thousand
models a round.
"""

import importlib
import io
import json
import sys
import threading
import zipfile
from types import ModuleType
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from sklearn.pipeline import Pipeline

_TORCH_OF_SKLEARN: Final = "sklearn.externals.array_api_compat.torch"
_IMPORTING: Final = threading.Lock()


def skops_io() -> ModuleType:
    """``skops.io``, imported without torch, which it leads to where that is installed: 180 MB and a second.

    skops looks through all packages of scikit-learn, one of which wraps torch for estimators that are given tensors.
    None is looked for there, so an empty module stands in its place meanwhile.
    """
    with _IMPORTING:
        if "skops.io" in sys.modules or _TORCH_OF_SKLEARN in sys.modules:
            return importlib.import_module("skops.io")
        sys.modules[_TORCH_OF_SKLEARN] = ModuleType(_TORCH_OF_SKLEARN)
        try:
            return importlib.import_module("skops.io")
        finally:
            del sys.modules[_TORCH_OF_SKLEARN]


class _Said(NamedTuple):
    """What skops says of a part of models: a tree of dicts, the arrays in it as files, and the objects it names."""

    state: dict[str, Any]
    files: tuple[tuple[str, bytes], ...]
    objects: dict[int, Any]


_SHARED: Final[WeakKeyDictionary[Any, _Said | None]] = WeakKeyDictionary()


def share(pipeline: Pipeline) -> None:
    """Say that nobody changes this pipeline from now on: of all models that have it, it is described once."""
    _SHARED.setdefault(pipeline, None)


def _state_of(pipeline: Pipeline, context: Any) -> dict[str, Any]:
    """What skops says of a pipeline; of a shared one, what it said before."""
    from skops.io._general import object_get_state
    from skops.io._utils import SaveContext

    if pipeline not in _SHARED:
        found: dict[str, Any] = object_get_state(pipeline, context)
        return found
    if (said := _SHARED[pipeline]) is None:
        with zipfile.ZipFile(io.BytesIO(), "w") as file:
            alone = SaveContext(zip_file=file)
            state = object_get_state(pipeline, alone)
            files = tuple((name, file.read(name)) for name in file.namelist())
        # Of the pipeline itself there is no need: it would stay for good.
        said = _SHARED[pipeline] = _Said(state, files, {k: v for k, v in alone.memo.items() if v is not pipeline})
    context.memo.update(said.objects)
    there = set(context.zip_file.namelist())
    for name, content in said.files:
        if name not in there:
            context.zip_file.writestr(name, content)
    return dict(said.state)


def _state_of_list(values: list[Any], context: Any) -> dict[str, Any]:
    """What skops says of a list; of one of whole numbers, such as positions of columns, without asking about each."""
    from skops.io._general import list_get_state

    if type(values) is not list or {type(value) for value in values} != {int}:
        found: dict[str, Any] = list_get_state(values, context)
        return found
    node = {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode", "is_json": True}
    content = [{**node, "content": str(value), "__id__": id(value)} for value in values]
    return {"__class__": "list", "__module__": "builtins", "__loader__": "ListNode", "content": content}


def dumps(model: Any) -> bytes:
    """What ``skops.io.dumps`` gives, but for blanks. Raises what that raises."""
    skops_io()
    import skops
    from skops.io._utils import SaveContext, _get_state, get_state

    for kind, state_of in ((Pipeline, _state_of), (list, _state_of_list)):
        if _get_state.dispatch(kind) is not state_of:
            _get_state.register(kind)(state_of)

    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        context = SaveContext(zip_file=file)
        # Whole objects stay alive meanwhile: skops knows them by where they are in memory.
        said = {**get_state(model, context), "protocol": context.protocol, "_skops_version": skops.__version__}
        file.writestr("schema.json", json.dumps(said))
    return content.getvalue()
