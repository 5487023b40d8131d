"""A trained model in one file, with all that is needed to use it on a table without the run that it came from.

Scikit-learn's classifiers and XGBoost's are in skops format, networks in safetensors format; none of them executes code
when it is loaded. Next to the model the file holds its preprocessing and a description (``ModelDescription``) in JSON.

The card of a global model, as JSON, says where it comes from, and what is promised of the labels behind it.
"""

import hashlib
import io
import json
import math
import zipfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from fedct_flwr import learners
from fedct_flwr.config.learner import LearnerSettings
from fedct_flwr.config.run import STUDY, RunConfig
from fedct_flwr.config.settings import Name, Settings
from fedct_flwr.config.tables import Side
from fedct_flwr.datasets.schema import Schema, quantiles
from fedct_flwr.files import write_atomically
from fedct_flwr.learners import Averageable, Learner, Probabilistic
from fedct_flwr.learners.sklearn import SklearnLearner
from fedct_flwr.learners.trained_model import skops_io
from fedct_flwr.privacy.budget import PrivacyUnit, Spending, unit_of
from fedct_flwr.privacy.sheet import UNITS
from fedct_flwr.runs.run_folder import versions
from fedct_flwr.scoring import Predictor
from fedct_flwr.scoring.assessment import RANKS, Recalibration
from fedct_flwr.types import Answers, Features, TrainingError
from fedct_flwr.wire.kinds import Kind

_MOST_FEATURES: Final = 3 * 4096 * 4096
"""Of one example: a color image of the largest size that a study takes."""
_LONGEST_NAME: Final = 200
"""Of a learner, which errors quote."""


class ModelDescription(Settings):
    """A model's study, columns and classes, and how its learner is made."""

    format: Literal[1] = 1
    study: Name
    classes: tuple[str, ...]
    """Names of the classes, as the model numbers them; empty where it predicts a quantity."""
    quantity: str = ""
    """Name of the number that the model predicts instead of a class."""
    columns: tuple[tuple[str, tuple[str, ...] | None], ...] = ()
    """Name and categories of each column, None for a numeric one; empty where features are no table."""
    text: tuple[str, ...] = ()
    """Names of the columns that hold text, which have no categories either."""
    learner: Annotated[str, Field(max_length=_LONGEST_NAME, pattern=r"^[\w.-]*$")]
    """Short name or import path."""
    params: dict[str, Any] = Field(default_factory=dict)
    shape: tuple[Annotated[int, Field(ge=1)], ...] = Field(min_length=1)
    """Of one example's features, before preprocessing."""
    time: str = ""
    """Name of the time to an event whose risk it ranks, where it does."""
    quantiles: dict[str, tuple[float, ...]] = Field(default_factory=dict)
    """Of each numeric column, what it held where the model learned: new records are compared with it."""
    image_size: tuple[Side, Side] | None = None
    """For a folder of images: height and width that all images are scaled to."""
    image_mode: Literal["gray", "color"] = "color"
    chances: Recalibration | Literal["ranks, not chances"] = RANKS
    """How the model's probabilities become chances, if they can."""

    @property
    def recalibration(self) -> Recalibration | None:
        """How the model's probabilities become chances; None where they are ranks."""
        return self.chances if isinstance(self.chances, Recalibration) else None

    @model_validator(mode="after")
    def _check_size(self) -> Self:
        # Memory is taken for it before anything else is known of the model.
        if math.prod(self.shape) > _MOST_FEATURES:
            raise ValueError(f"'shape' has more than {_MOST_FEATURES} features")
        if self.recalibration and len(self.recalibration.intercepts) != len(self.classes):
            raise ValueError("'chances' has another number of intercepts than there are classes")
        return self


class Recalibrated:
    """A trained model whose probabilities are recalibrated (None: as they are). It decides as before."""

    def __init__(self, learner: Predictor, how: Recalibration | None) -> None:
        self.learner, self._how = learner, how

    def predict(self, X: Features) -> Answers:
        """The learner's own answers."""
        return self.learner.predict(X)

    def probabilities(self, X: Features, num_classes: int) -> NDArray[np.float64] | None:
        """Recalibrated probabilities ``(n, num_classes)``; None where the learner states none."""
        found = self.learner.probabilities(X, num_classes) if isinstance(self.learner, Probabilistic) else None
        return found if found is None or self._how is None else self._how.apply(found)


_MEMBER: Final = "fedct.json"
_LONGEST: Final = 1 << 24
"""Bytes of a description; it names all columns and categories."""


def description_of(study: str, schema: Schema, settings: LearnerSettings, *learned: Features) -> ModelDescription:
    """Metadata for the file of a model that ``settings`` describe, in a study of this name.

    ``learned``, each ``(n, columns)``, are the examples that it has learned from.
    """
    return ModelDescription.read(
        {
            "study": study,
            "classes": () if schema.follow_up else schema.classes,
            "time": schema.follow_up.time if schema.follow_up else "",
            "quantity": "risk" if schema.follow_up else schema.quantity,
            "columns": [(column.name, column.categories) for column in schema.columns],
            "quantiles": quantiles(schema, *learned),
            "text": [column.name for column in schema.columns if column.text],
            # An object in memory has an import path, and after it what tells it from others.
            "learner": settings.name.partition("@")[0].replace(":", "."),
            "params": settings.params,
            "shape": learned[0].shape[1:],
            **({"image-size": form.size, "image-mode": form.mode} if (form := schema.images) else {}),
        },
        "the model's description",
    )


def can_be_saved(learner: Learner) -> bool:
    """Whether ``save_model`` knows how."""
    return isinstance(learner, SklearnLearner | Averageable)


def describe(path: Path, learner: Learner, transformer: Any, description: ModelDescription, target: Path) -> None:
    """Write ``path``, which ``learner`` wrote, with its description to ``target``. Raises OSError."""
    if can_be_saved(learner):
        write_atomically(target, _content(path.read_bytes(), learner, transformer, description))


def save_model(path: Path, learner: Learner, transformer: Any, description: ModelDescription) -> bytes:
    """Write a trained learner with its ``transformer``; returns the content. Raises TrainingError, OSError."""
    content = _content(b"", learner, transformer, description)
    write_atomically(path, content)
    return content


def _content(written: bytes, learner: Learner, transformer: Any, description: ModelDescription) -> bytes:
    """A file of what ``learner`` has ``written``, or of the learner as it is."""
    text = text_of(description)
    if isinstance(learner, SklearnLearner):
        found = written or learner.to_bytes()
        return found if member(found) else with_member(found, text)
    if isinstance(learner, Averageable):
        dumped = None if transformer is None else skops_io().dumps(transformer)
        return learners.described(written or learner, dumped, text)
    raise TrainingError("models of this learner cannot be saved")


def text_of(description: ModelDescription) -> str:
    """The description as a file has it."""
    # Without text the file is as it always was, so that earlier versions read it.
    left_out = ({"text"} if not description.text else set()) | ({"chances"} if not description.classes else set())
    return json.dumps(description.model_dump(by_alias=True, exclude=left_out))


def with_member(content: bytes, message: str) -> bytes:
    """An archive with this description."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(buffer, "w") as file:
        for entry in old.infolist():
            if entry.filename != _MEMBER:
                file.writestr(entry, old.read(entry))
        file.writestr(_MEMBER, message)
    return buffer.getvalue()


def member(content: bytes) -> str | None:
    """The description in an archive; None without one that can be read."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as file:
            entry = file.getinfo(_MEMBER)
            # Nothing has been audited yet: what is packed could be of any size.
            if entry.compress_type != zipfile.ZIP_STORED or entry.file_size > _LONGEST:
                return None
            return file.read(entry).decode()
    except (KeyError, UnicodeDecodeError, zipfile.BadZipFile, NotImplementedError, EOFError, RuntimeError, OSError):
        return None


_OF_SILOS: Final = (
    "Each silo decides for itself what it promises of its records; the coordinator does not know it. Ask the silos for "
    "their privacy sheets ('fedct privacy-sheet')."
)
_OF_STUDENTS: Final = (
    "the labels are what students at the silos voted for, who learned from models of the silos' records without noise"
)
_OF_PROBABILITIES: Final = "the labels were made of the probabilities that the silos' own models give, without noise"
_OF_OWN_MODELS: Final = "the labels are those of the silos' own models, without noise"
_SILO: Final = "one silo as a whole, all its votes replaced by any others"
_KEPT: Final = (
    "The labels keep this promise in total over all rounds, and so does the model, which is made of them alone "
    "(post-processing). The public set is not protected."
)
_AT_COORDINATOR: Final = (
    "The labels keep this promise, and so does the model, which is made of them alone (post-processing). It compares "
    "the run with one in which all votes of one silo are replaced by any others; which silos took part counts as "
    "public, and is not hidden. The coordinator sees the votes themselves: nothing is promised against it. Several "
    "runs over the same silos add up, and the coordinator keeps no ledger of them. The public set is not protected."
)
_SIMULATED: Final = " In a simulation the noise comes from the run's seed, and protects no one."
_IN_SHARES: Final = (
    "The labels keep this promise, and so does the model, which is made of them alone (post-processing). It compares "
    "the run with one in which all votes of one silo are replaced by any others; which silos took part counts as "
    "public, and is not hidden. It also holds against the coordinator, which opens the noisy sum of votes alone, if no "
    "more silos collude with it than may-collude says. The public set is not protected."
)


def promised(config: RunConfig, kind: Kind) -> dict[str, Any]:
    """Guarantee of a run's settings for the records behind the labels; the student is made of labels alone."""
    if config.data == STUDY:
        return {"protection": "the silos' own", "words": _OF_SILOS}
    if config.protection == "none":
        made = _OF_OWN_MODELS if kind.own_model else _OF_STUDENTS
        source = _OF_PROBABILITIES if kind.by_probabilities else made
        return {"protection": "none", "words": f"Nothing is promised: {source}."}
    return _kept(config.protection, config.epsilon, config.delta, UNITS[unit_of(grouped=config.grouped)])


def promised_together(config: RunConfig, epsilon: float, delta: float) -> dict[str, Any]:
    """Guarantee of the joint labeler: the noise of all silos, for these totals."""
    return _kept("joint labeler", epsilon, delta, UNITS[unit_of(grouped=config.grouped)])


def promised_by_noise(spent: Spending) -> dict[str, Any]:
    """Guarantee of noise on counts of votes. Raises ValueError where there was no such noise."""
    if spent.noise is None:
        raise ValueError("there is no noise on votes to tell of")
    how = f"{spent.noise.mechanism} noise {spent.added_by}", spent.epsilon, spent.delta
    if spent.unit is not PrivacyUnit.SILO:
        return _kept(*how, UNITS[spent.unit])
    return _kept(*how, _SILO, _IN_SHARES if spent.noise.honest else _AT_COORDINATOR)


def _kept(protection: str, epsilon: float, delta: float, unit: str, words: str = _KEPT) -> dict[str, Any]:
    return {"protection": protection, "epsilon": epsilon, "delta": delta, "unit": unit, "words": words}


def card_of(
    config: RunConfig,
    title: str,
    *,
    public_fingerprint: str,
    num_public: int,
    labels: int,
    rounds: int,
    privacy: Mapping[str, Any],
    file: str,
    content: bytes,
) -> dict[str, Any]:
    """The facts of a model that has learned from the labels of ``labels`` public examples.

    The card goes wherever the model goes. So it names no silo, and has no score of a model or a test record.
    """
    simulated = "epsilon" in privacy and config.data != STUDY
    return {
        "model": file,
        "sha256": hashlib.sha256(content).hexdigest(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "study": config.study,
        "public-set": {"fingerprint": public_fingerprint, "examples": num_public},
        "labels": {
            "used": labels,
            "without": num_public - labels,
            "algorithm": config.algorithm,
            "title": title,
            "rounds": rounds,
            **config.method.facts,
        },
        "privacy": {**privacy, "words": privacy["words"] + _SIMULATED * simulated},
        "learner": config.student_settings().model_dump(include={"name", "params", "preprocessing", "seed"}),
        "versions": versions(),
    }
