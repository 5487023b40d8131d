"""A study as its silos and its coordinator agree upon it: data set, classes, terms.

The digest is what a silo approves: a change of the public set, the classes, the columns or the test set changes it.
"""

import hashlib
import json
from base64 import b64decode
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_der_public_key

from fedct_flwr import secure_sum
from fedct_flwr.config.study import StudyConfig
from fedct_flwr.datasets.federated import PublicSet
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.types import ConfigError, Examples
from fedct_flwr.wire.content import STEPS, Joint, Terms

if TYPE_CHECKING:
    from fedct_flwr.secure_sum.terms import SumTerms

STUDY_FILE: Final = "study.toml"


@dataclass(frozen=True, eq=False)
class StudyFolder:
    """A study as its folder describes it. ``test`` is empty if the study has none."""

    config: StudyConfig
    schema: Schema
    public: PublicSet
    test: Examples

    @property
    def name(self) -> str:
        """Name of the study."""
        return self.config.study

    @cached_property
    def sums(self) -> "SumTerms | None":
        """The terms of its secure sums; None where it has none. Raises ConfigError for wrong ones."""
        sums = self.config.sums
        if not sums.keys:
            return None
        keys = {silo: _public_key(silo, key) for silo, key in sums.keys.items()}
        return secure_sum.SumTerms(self.name, keys, sums.min_summands, sums.may_collude)

    @cached_property
    def terms(self) -> Terms:
        """Terms of this study for coordinator and silos."""
        return self.schema.terms(self.name, self.public)

    @cached_property
    def joint(self) -> Joint | None:
        """The joint labeler that the study agrees upon, without weights and seed, or None. Raises ConfigError."""
        agreed, sums = self.config.joint, self.sums
        if agreed is None or sums is None:
            return None
        return Joint(
            records=agreed.records,
            steps=STEPS,
            epsilon=agreed.epsilon,
            delta=agreed.delta,
            # Two or more, as the terms of sums have it.
            honest=sums.min_summands - sums.may_collude,
            columns=0 if agreed.labeler == "linear" else len(self.schema.without_texts),
            seed=0,
        )

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 (32 bytes) over name, classes, columns with their categories, public set, test set, form of images.

        And over what ``[tables]`` says the columns mean, ``[columns]``, ``[sums]``, ``[joint]``, ``[draw]``,
        ``[count]``, ``[scores]`` and ``[governance]``; a study without them has the digest that it always had.
        """
        wire = "<f8" if self.schema.outcome.number else "<i2"
        agreed: dict[str, object] = {
            "study": self.config.study,
            "classes": self.schema.classes,
            "columns": [(column.name, column.categories) for column in self.schema.columns],
            "public": self.public.fingerprint.hex(),
            "test": PublicSet(self.test.X).fingerprint.hex() if self.test.size else None,
            "test-labels": hashlib.sha256(self.test.y.astype(wire).tobytes()).hexdigest(),
            # Only where there is text: studies without it keep the digest that they always had.
            **({"text": texts} if (texts := [column.name for column in self.schema.columns if column.text]) else {}),
            "images": [self.config.image_size, self.config.image_mode] if self.config.image_size else None,
        }
        if self.sums:
            agreed["sums"] = self.sums.digest.hex()
        for name in ("number", "survival", "joint", "draw", "count", "scores"):
            if part := getattr(self.config, name):
                agreed[name] = part.model_dump(mode="json")
        if stated := self.config.governance.model_dump(exclude_defaults=True):
            agreed["governance"] = stated
        if self.config.columns:
            agreed["dictionary"] = {
                name: form.model_dump(mode="json", exclude_defaults=True) for name, form in self.config.columns.items()
            }
        if lacking := self.config.may_be_missing:
            agreed["may-be-missing"] = sorted(lacking)
        if meant := self.config.tables.decides:
            agreed["tables"] = meant
        return hashlib.sha256(b"fedct study 1 " + json.dumps(agreed, sort_keys=True).encode()).digest()


def _public_key(silo: str, line: str) -> bytes:
    """The 32 bytes of an Ed25519 key as a file of PEM has it. Raises ConfigError."""
    try:
        key = load_der_public_key(b64decode(line, validate=True))
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise ConfigError(f"{silo!r} under [sums.keys] in {STUDY_FILE} is no key: copy the line from its egress.pub")
    return key.public_bytes_raw()
