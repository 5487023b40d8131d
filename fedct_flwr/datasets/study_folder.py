"""The study's folder, sent by the coordinator: ``study.toml``, public set, perhaps a test set.

The digest of the folder is what a silo approves: a change of the public set, the classes, the columns or the test
set changes the digest.
"""

import hashlib
import json
import os
import shutil
import stat
import tempfile
from base64 import b64decode
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_der_public_key

from fedct_flwr import datasets, secure_sum, survival
from fedct_flwr.config.study import MAY_BE_MISSING, StudyConfig
from fedct_flwr.datasets.federated import PublicSet
from fedct_flwr.datasets.schema import FollowUp, ImageForm, Schema
from fedct_flwr.datasets.silo_records import check_columns, read_labeled
from fedct_flwr.datasets.table_files import read_table
from fedct_flwr.datasets.tables import columns_of, encode
from fedct_flwr.text.printable import fault, listed, quoted, suggest
from fedct_flwr.types import LABEL_DTYPE, ConfigError, DataError, Examples
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
        return self.schema.terms(self.name, len(self.public), self.public.fingerprint)

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


def read_study(folder: Path) -> StudyFolder:
    """Read a study's folder. Raises ConfigError or DataError, which name the file concerned."""
    if not (folder / STUDY_FILE).is_file():
        raise ConfigError(f"no {STUDY_FILE} in {folder}: ask the coordinator for the study's folder")
    _check_inside(folder, STUDY_FILE, [folder / STUDY_FILE])
    config = StudyConfig.read_toml(folder / STUDY_FILE)
    _check_inside(folder, "public", [config.public])
    _check_inside(folder, "test-file", [config.test_file] if config.test_file else [])
    if config.image_size:
        if config.test_file:
            raise ConfigError(f"test-file in {folder / STUDY_FILE} is for tables: leave it out for images")
        images = datasets.images_in(config.public)
        _check_inside(folder, "public", images)
        if hidden := next((path.name for path in images if fault(path.name)), ""):
            what = f"the file {quoted(hidden)} in {config.public}: {fault(hidden)}"
            raise DataError(f"{what}; ask the coordinator to rename it")
        form = ImageForm(config.image_size, config.image_mode)
        datasets.check_room(images, *form)
        public, schema = datasets.read_images(images, *form), Schema(config.classes, images=form)
    else:
        table = read_table(config.public, tables=config.tables)
        check_columns(config.tables, [config.public, *([config.test_file] if config.test_file else [])])
        if table.num_rows == 0 or not table.column_names:
            raise DataError(f"{config.public} is empty: it needs at least one record and one feature")
        columns = columns_of(table, config.public, config.tables.text)
        if wrong := {*config.may_be_missing} - {each.name for each in columns if not each.text}:
            raise ConfigError(
                f"{MAY_BE_MISSING} under [columns] in {folder / STUDY_FILE} names {listed(sorted(wrong))}: name "
                "columns of the public set, and none of free text"
            )
        names = [each.name for each in columns]
        if unknown := next((name for name in config.columns if name not in names), ""):
            raise ConfigError(f"[columns] in {folder / STUDY_FILE} names {unknown!r}: {suggest(unknown, names)}")
        public = encode(table, columns, config.public)
        number, times = config.number, config.survival
        schema = Schema(
            survival.GRADE_NAMES if times else config.classes,
            columns,
            number.name if number else "",
            grid=number.grid if number else None,
            follow_up=FollowUp(times.time, times.event, times.horizons) if times else None,
        )
    study = StudyFolder(config, schema, PublicSet(public), Examples(public[:0], np.zeros(0, dtype=LABEL_DTYPE)))
    if not config.test_file:
        return study
    test, _ = read_labeled(config.test_file, config.test_label, study)
    return StudyFolder(config, schema, study.public, test)


def _check_inside(folder: Path, key: str, paths: Sequence[Path]) -> None:
    """Raise ConfigError for a path that leads out of the folder, by itself or by a link, and for pipes and devices.

    Otherwise the folder's author would choose which of the silo's files are read as public examples.
    """
    where = "" if key == STUDY_FILE else f" in {folder / STUDY_FILE}"
    try:
        inside = folder.resolve()
        leads_out = not all(path.resolve().is_relative_to(inside) for path in paths)
        is_special = any(path.exists() and not (path.is_file() or path.is_dir()) for path in paths)
    except OSError as error:
        raise ConfigError(f"{key}{where} cannot be read: {error.strerror}; ask the coordinator for another") from None
    except RuntimeError:  # a circle of links
        leads_out, is_special = True, False
    if leads_out:
        raise ConfigError(f"{key}{where} leads out of the study's folder: put the files into it")
    if is_special:
        raise ConfigError(f"{key}{where} is neither a file nor a folder: ask the coordinator for the study's folder")


MOST_ENTRIES: Final = 200_000
MOST_BYTES: Final = 64 << 30
DEEPEST: Final = 16
"""Folders within folders. A study has one or two."""


def check_plain(study: Path) -> int:
    """Raise ConfigError for a study's folder with links, devices and the like, or too large; returns its bytes.

    Opens no file. The folder itself may be a link: its path comes from the person at this machine, not from elsewhere.
    """
    size = entries = 0
    folders = [(study.resolve(), 0)]
    while folders:
        folder, depth = folders.pop()
        try:
            with os.scandir(folder) as found:
                for entry in found:
                    entries += 1
                    state = entry.stat(follow_symlinks=False)
                    shown = repr(os.path.relpath(entry.path, study.resolve()))
                    if not (stat.S_ISREG(state.st_mode) or stat.S_ISDIR(state.st_mode)):
                        raise ConfigError(
                            f"{shown} in the study {study} is a link, or neither a file nor a folder: ask the "
                            "coordinator for a folder with files in their places"
                        )
                    if stat.S_ISDIR(state.st_mode):
                        folders.append((Path(entry.path), depth + 1))
                    else:
                        size += state.st_size
                    if entries > MOST_ENTRIES or size > MOST_BYTES or depth > DEEPEST:
                        raise ConfigError(
                            f"the study {study} is too large: it may have {MOST_ENTRIES:,} files, {MOST_BYTES >> 30} "
                            f"GiB and {DEEPEST} folders within each other, check that it is the coordinator's folder"
                        )
        except OSError as error:
            raise ConfigError(f"cannot read the study {study}: {error.strerror}") from None
    return size


def copy_study(study: Path, target: Path) -> None:
    """Copy a study's folder, whole or not at all. Raises ConfigError if ``check_plain`` does, or if copying fails."""
    size = check_plain(study)
    if target.resolve().is_relative_to(study.resolve()):
        raise ConfigError(f"{target} lies in the study {study} that it would get a copy of: choose another folder")
    if size > shutil.disk_usage(target.parent).free:
        raise ConfigError(f"the study {study} has {size:,} bytes, for which {target.parent} has no space: make room")
    temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    try:
        # Links that came since then stay links, and are refused.
        copied = shutil.copytree(study.resolve(), temporary / target.name, symlinks=True)
        check_plain(copied)
        copied.rename(target)
    except OSError as error:
        raise ConfigError(f"cannot copy the study {study}: {error.strerror or 'a file in it cannot be read'}") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
