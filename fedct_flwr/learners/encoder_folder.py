"""Language models in folders on this machine, looked at before anything is loaded; nothing is downloaded."""

import hashlib
import importlib
import json
import os
import warnings
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from fedct_flwr.datasets.cache import data_folder
from fedct_flwr.files import DAMAGED
from fedct_flwr.learners.catalog import LEARNER_FOLDER
from fedct_flwr.text.printable import quoted
from fedct_flwr.types import LearnerError

_CONFIG: Final = "config.json"
_ADAPTER: Final = "adapter_config.json"
_TOKENIZER: Final = (
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.txt",
    "vocab.json", "merges.txt", "spiece.model", "sentencepiece.bpe.model", "tokenizer.model",
)  # fmt: skip
"""Files that decide which tokens a text becomes."""
_PICKLES: Final = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
_ABOUT: Final = (".md", ".gitattributes")
"""Files for people, which no loader opens."""
_LIKE_ROBERTA: Final = (
    "roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "roberta-prelayernorm", "data2vec-text", "mpnet", "xmod",
    "ibert", "longformer",
)  # fmt: skip
"""Kinds of models whose positions begin behind the padding's number."""
_LONGEST: Final = 512
"""Tokens of a text where the model does not say how many it takes."""
PADDING: Final = -1
"""Fills the end of a short text: not a token of any model."""


def located(folder: str) -> Path:
    """A model's folder: this path, or one below ``models`` in the data folder. Raises LearnerError."""
    places = [Path(os.environ.get(LEARNER_FOLDER, ""), folder).expanduser(), data_folder() / "models" / folder]
    found = next((place for place in places if folder and (place / _CONFIG).is_file()), None)
    if found is None:
        where = " or in ".join(dict.fromkeys([quoted(folder), quoted(str(places[1]))]))
        raise LearnerError(
            f"no language model is in {where} ({_CONFIG} is missing): copy the "
            "model's folder to this machine, nothing is downloaded"
        )
    if why := next(_refusals(found, {path.name for path in found.iterdir()}), None):
        raise LearnerError(f"the language model in {quoted(str(found))} {why}")
    return found


def _refusals(folder: Path, names: set[str]) -> Iterator[str]:
    """Why a folder is not loaded, and what to do. Of all else that a folder lacks, transformers tells."""
    unsafe = (".py",) if any(name.endswith(".safetensors") for name in names) else (".py", *_PICKLES)
    if code := sorted(name for name in names if name.endswith(unsafe)):
        yield f"is refused, as {quoted(code[0])} can run code: take one in safetensors that transformers knows"
    if _ADAPTER in names:
        yield f"is an adapter ({_ADAPTER}), which names another folder: take the whole model"
    for index in sorted(folder.glob("*.safetensors.index.json")):
        try:
            parts = {str(part) for part in json.loads(index.read_text("utf-8"))["weight_map"].values()}
        except DAMAGED:
            parts = {index.name}
        if strays := sorted(part for part in parts if Path(part).name != part or not part.endswith(".safetensors")):
            yield f"takes weights from {quoted(strays[0])}, which is no file of it: copy the model's folder again"


def fingerprint(folder: Path) -> str:
    """SHA-256 over all that a loader may open: all files but pickles, which are never read; 64 hexadecimal digits."""
    first = [_CONFIG, *_TOKENIZER, *sorted(path.name for path in folder.glob("*.safetensors"))]
    others = {path.name for path in folder.iterdir() if path.suffix not in (*_PICKLES, *_ABOUT)} - {*first}
    whole = hashlib.sha256()
    for name in [*first, *sorted(others)]:
        path = folder / name
        if path.is_file():
            about = path.stat()
            whole.update(f"{name} {_of_file(path, about.st_mtime_ns, about.st_size)}\n".encode())
    return whole.hexdigest()


@lru_cache(maxsize=64)
def _of_file(path: Path, changed: int, size: int) -> str:
    """The digest of a file, read once while it does not change."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def load_tokenizer(folder: Path) -> Any:
    """The folder's tokenizer. Raises LearnerError."""
    return _load("AutoTokenizer", folder)


def load_network(kind: str, folder: Path, **more: Any) -> Any:
    """The folder's network in single precision, by the name of a class of transformers. Raises LearnerError."""
    return _load(kind, folder, use_safetensors=True, dtype="float32", **more)


def most_tokens(folder: Path, wanted: int) -> int:
    """How many tokens of a text are read: ``wanted``, or as many as the model takes if that is less or 0."""
    said = json.loads((folder / _CONFIG).read_text("utf-8"))
    takes = [said[key] for key in ("max_position_embeddings", "n_positions") if isinstance(said.get(key), int)]
    most = min(takes, default=_LONGEST) - (2 if said.get("model_type") in _LIKE_ROBERTA else 0)
    return min(wanted, most) if wanted else most


def transformers() -> Any:
    """The package, offline and quiet. Raises ImportError without it."""
    # Read when the package is imported: no model comes from a network.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    from fedct_flwr.learners.networks import mend_torchvision

    mend_torchvision()
    with warnings.catch_warnings():
        # Of packages about each other, for their programmers.
        warnings.simplefilter("ignore")
        package: Any = importlib.import_module("transformers")
    package.logging.set_verbosity_error()
    package.logging.disable_progress_bar()
    return package


def _load(kind: str, folder: Path, **more: Any) -> Any:
    package = transformers()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return getattr(package, kind).from_pretrained(
                str(folder), local_files_only=True, trust_remote_code=False, **more
            )
    except Exception as error:  # transformers raises many types
        said = str(error).partition("\n")[0]
        raise LearnerError(
            f"the language model in {quoted(str(folder))} cannot be loaded as {kind} ({type(error).__name__}: {said})"
        ) from error


class Frozen(NamedTuple):
    """An encoder as it reads: its folder and digest, tokens of a text (0: all it can), last layers that are taken."""

    folder: Path
    fingerprint: str
    max_length: int
    layers: int


def tokens_of(tokenizer: Any, texts: list[str], length: int) -> list[list[int]]:
    """At most ``length`` tokens of each text, and at least one: a model such as GPT-2 finds none in an empty text."""
    if not texts:
        return []
    end = next((token for token in (tokenizer.eos_token_id, tokenizer.pad_token_id) if token is not None), 0)
    found = tokenizer(texts, truncation=True, max_length=length, padding=False)["input_ids"]
    return [tokens or [end] for tokens in found]
