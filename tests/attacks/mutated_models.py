"""Model files with something changed in them, of every learner whose models can be kept."""

import io
import json
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from fedct_flwr.config import LearnerSettings
from fedct_flwr.datasets.schema import Column, Schema
from fedct_flwr.learners import preprocessing
from fedct_flwr.learners.build import untrained
from fedct_flwr.models.model_file import save_model
from tests.models.test_model_file import LABELS, LISTED, SCHEMA, description, saved, table

NETWORK: Final = "fashion-mnist-mlp"
PIXELS: Final = 784
NUMBERS: Final = (0, 1, -1, 2, 255, -128, 2**15, 2**31 - 1, -(2**31), 2**32, 2**63 - 1, -(2**63), 10**30, 0.5, 1e308)
VALUES: Final = (
    *NUMBERS,
    True,
    False,
    None,
    "",
    "x",
    "NaN",
    "null",
    [],
    {},
    [[0]],
    {"a": 1},
    "\x1b[2J",
    "../../x",
    "a" * 999,
)
ZIP: Final = b"PK\x03\x04"


def legal_files(folder: Path) -> dict[str, bytes]:
    """A file of each learner, and of some that have not seen all classes."""
    files = {name: saved(folder / "m", name)[1] for name in LISTED}
    for name in ("decision-tree", "xgboost", "svm", "gradient-boosting"):
        for known in ("two", "a gap", "one"):
            labels = LABELS[known](table()[1]).astype(np.int16)
            files[f"{name}, {known}"] = saved(folder / "m", name, labels)[1]
    return files | networks(folder)


def networks(folder: Path) -> dict[str, bytes]:
    """A network with preprocessing and one without."""
    X, y = np.random.default_rng(0).normal(size=(60, PIXELS)).astype(np.float32), table()[1]
    fitted = preprocessing.standard(Schema(SCHEMA.classes, tuple(Column(f"x{k}") for k in range(PIXELS))), X)
    settings = LearnerSettings(name=NETWORK, params={"width": 4}, preprocessing="none", device="cpu")
    said = description("", learner=NETWORK, params={"width": 4}, shape=(PIXELS,), columns=())
    files = {}
    for name, transformer in ((NETWORK, None), (f"{NETWORK}, preprocessed", fitted)):
        learner = untrained(settings, 0, 3, X[:2], transformer, total_steps=2).fit(X, y)
        files[name] = save_model(folder / "m", learner, transformer, said)
    return files


def members(archive: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(archive)) as file:
        return {name: file.read(name) for name in file.namelist()}


def packed(parts: Mapping[str, bytes]) -> bytes:
    """As skops packs them, with sums that are right whatever was changed."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        for name, value in parts.items():
            file.writestr(name, value)
    return content.getvalue()


def mutated(rng: np.random.Generator, content: bytes) -> bytes:
    """The file with one or a few changes, most of them in the parts that compiled code reads."""
    for _ in range(rng.integers(1, 3)):
        if rng.random() < 0.05:
            content = _bytes(rng, content)
        elif content.startswith(ZIP):
            content = _archive(rng, content)
        else:
            content = _tensors(rng, content)
    return content


def _archive(rng: np.random.Generator, content: bytes) -> bytes:
    try:
        parts = members(content)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, OSError):
        return _bytes(rng, content)
    kinds: dict[str, list[str]] = {}
    for name in parts:
        kinds.setdefault(name.rpartition(".")[2] if name.endswith((".npy", ".bin")) else name, []).append(name)
    # As often each kind, however many arrays there are; XGBoost's trees more often.
    weights = np.array([4.0 if kind == "bin" else 1.0 for kind in kinds])
    chosen = list(kinds.values())[rng.choice(len(kinds), p=weights / weights.sum())]
    name = chosen[rng.integers(len(chosen))]
    if name.endswith(".json") and rng.random() < 0.95:
        parts[name] = _json(rng, parts[name])
    else:
        parts[name] = _bytes(rng, parts[name])
    if rng.random() < 0.05:
        parts[chosen[rng.integers(len(chosen))]] = parts[list(parts)[rng.integers(len(parts))]]
    return packed(parts)


def _tensors(rng: np.random.Generator, content: bytes) -> bytes:
    """In safetensors format: the header, the description in it, the tensors, or the preprocessing among these."""
    end = 8 + int.from_bytes(content[:8], "little")
    try:
        said, tensors = _parts_of_tensors(rng, content[8:end], content[end:])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        # What was changed before is no header any more.
        return _bytes(rng, content)
    return struct.pack("<Q", len(said)) + said + tensors


def _parts_of_tensors(rng: np.random.Generator, said: bytes, tensors: bytes) -> tuple[bytes, bytes]:
    header = json.loads(said)
    begin, stop = header["preprocessing"]["data_offsets"] if "preprocessing" in header else (0, 0)
    match rng.integers(4):
        case 0:
            return _json(rng, said), tensors
        case 1:
            about = header["__metadata__"]
            about["fedct"] = _json(rng, about["fedct"].encode()).decode(errors="replace")
            return json.dumps(header).encode(), tensors
        case 2 if stop:
            inner = _archive(rng, tensors[begin:stop])
            # Where the preprocessing ends, all else has to move.
            moved = len(inner) - (stop - begin)
            for name, tensor in header.items():
                if name != "__metadata__":
                    tensor["data_offsets"] = [at + moved if at >= stop else at for at in tensor["data_offsets"]]
            header["preprocessing"] |= {"shape": [len(inner)], "data_offsets": [begin, begin + len(inner)]}
            return json.dumps(header).encode(), tensors[:begin] + inner + tensors[stop:]
        case _:
            return said, _bytes(rng, tensors)


def _json(rng: np.random.Generator, content: bytes) -> bytes:
    """With one value in another's place, away, or hostile."""
    try:
        said = json.loads(content)
    except (ValueError, RecursionError):
        return _bytes(rng, content)
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        for key, value in list(node.items() if isinstance(node, dict) else enumerate(node)):
            places.append((node, key))
            if isinstance(value, dict | list):
                walk(value)

    if not isinstance(said, dict | list):
        return _bytes(rng, content)
    walk(said)
    # What values are written in, of which most are numbers in text.
    written = [(node, key) for node, key in places if key == "content" and isinstance(node[key], str)]
    choose = written if written and rng.random() < 0.5 else places
    if not choose:
        return content
    node, key = choose[rng.integers(len(choose))]
    other, another = choose[rng.integers(len(choose))]
    match rng.integers(4):
        case 0:
            node[key] = other[another]
        case 1 if isinstance(node, dict):
            del node[key]
        case 2 if isinstance(node[key], str):
            node[key] = json.dumps(VALUES[rng.integers(len(VALUES))])
        case _:
            node[key] = VALUES[rng.integers(len(VALUES))]
    try:
        return json.dumps(said).encode()
    except (ValueError, RecursionError):
        return content


def _bytes(rng: np.random.Generator, content: bytes) -> bytes:
    """With some bytes changed, away, twice, or a number in their place."""
    if not content:
        return b"\0"
    changed, at = bytearray(content), int(rng.integers(len(content)))
    span = int(min(rng.choice([1, 1, 2, 4, 8, 64]), len(content) - at))
    match rng.integers(6):
        case 0:
            changed[at] ^= 1 << int(rng.integers(8))
        case 1:
            changed[at] = int(rng.choice([0, 1, 127, 128, 255]))
        case 2:
            del changed[at : at + span]
        case 3:
            changed[at:at] = changed[at : at + span]
        case 4:
            number = struct.pack(str(rng.choice([">i", "<i", ">q", "<q"])), int(rng.choice([-1, -2, 2**31 - 1, 99999])))
            changed[at : at + len(number)] = number
        case _:
            changed[at : at + span] = rng.bytes(span)
    return bytes(changed)
