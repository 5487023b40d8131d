"""A data set as it lies in a simulated federation: silos with private and test records, and a public set.

The public set has a fingerprint, and a round asks about some of its examples. Images are bytes of pixels and colors
until numbers are needed.

Records that belong together, such as one patient's, are read from a column and kept on one side of every split: a model
that has seen one record of a patient knows the patient, and its score on the others is over-optimistic.
"""

import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.random import Generator
from numpy.typing import NDArray

from fedct_flwr import datasets
from fedct_flwr.text.printable import count, quoted
from fedct_flwr.types import Answers, DataError, Examples, Features, Groups, SiloName, generator

if TYPE_CHECKING:
    from fedct_flwr.datasets.inspection import Finding
    from fedct_flwr.datasets.inspection.table_one import TableOne
    from fedct_flwr.datasets.schema import Schema

_BLOCK_BYTES: Final = 1 << 24
AXES: Final = 4
"""Axes of images: example, channel, row and column."""


def scaled(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Bytes to 0..1, any shape, in C order."""
    result: np.ndarray[Any, np.dtype[np.float32]] = pixels.astype(np.float32, order="C")
    result /= np.float32(255)
    return result


def are_bytes(X: Features) -> bool:
    """Whether these are images ``(n, channels, height, width)`` of bytes, which stand for 0..1."""
    return X.dtype == np.uint8 and X.ndim == AXES


def as_numbers(X: Features) -> Features:
    """Features as numbers to calculate with: images of bytes as 0..1, all others as they are.

    >>> as_numbers(np.full((1, 1, 1, 1), 51, dtype=np.uint8)).ravel()
    array([0.2], dtype=float32)
    """
    return scaled(X) if are_bytes(X) else X


@dataclass(frozen=True, eq=False)
class PublicSet:
    """Unlabeled examples that every silo and the coordinator hold a copy of.

    ``X`` is numeric, or objects where columns of text hold strings; first axis examples. Raises DataError if it is
    empty or holds anything else.
    """

    X: Features

    def __post_init__(self) -> None:
        if self.X.dtype.kind not in "biuf" and not _holds_text(self.X):
            raise DataError(f"the public set must hold numbers, not {self.X.dtype}: encode text and dates first")
        if self.X.ndim < 2 or self.X.size == 0:
            raise DataError(f"the public set has shape {self.X.shape}: it needs at least one example and one feature")

    def __len__(self) -> int:
        return len(self.X)

    @cached_property
    def fingerprint(self) -> bytes:
        """SHA-256 over shape, dtype and values (32 bytes), independent of platform and memory layout.

        Values are read in C order, little-endian; every NaN counts as the same NaN and -0.0 as 0.0, because
        no learner can tell them apart while file formats and processors do not preserve them. Images of bytes
        count as the numbers that they stand for. Of columns of text, length and UTF-8 bytes of each string count.
        """
        if self.X.dtype == np.object_:
            return _of_objects(self.X)
        dtype = np.dtype("<f4") if are_bytes(self.X) else self.X.dtype.newbyteorder("<")
        digest = hashlib.sha256(f"fedct public set 1 {dtype.str} {self.X.shape}".encode())
        rows = max(1, _BLOCK_BYTES * len(self.X) // (self.X.size * dtype.itemsize))
        for start in range(0, len(self.X), rows):
            block = np.array(as_numbers(self.X[start : start + rows]), dtype=dtype, order="C")
            if dtype.kind == "f":
                block[np.isnan(block)] = np.nan
                block += 0.0
            digest.update(block.data)
        return digest.digest()


def _sum_of(records: Examples) -> int:
    """The sum over records of a number for each, which tells apart records that differ in a cell or the label."""
    if not records.size:
        return 0
    X = as_numbers(records.X).reshape(records.size, -1)
    columns = [_as_floats(X[:, at]) for at in range(X.shape[1])] if X.dtype == np.object_ else [X.astype(np.float64)]
    cells = np.column_stack([*columns, records.y.astype(np.float64)]) + 0.0
    cells[np.isnan(cells)] = np.nan
    drawn = generator(0, "records").integers(1, 2**63, cells.shape[1], dtype=np.uint64)
    factors: NDArray[np.uint64] = np.bitwise_or(drawn, np.uint64(1))
    mixed = (cells.view(np.uint64) * factors).sum(axis=1, dtype=np.uint64)
    mixed = (mixed ^ (mixed >> np.uint64(29))) * factors[0]
    return int((mixed ^ (mixed >> np.uint64(32))).sum(dtype=np.uint64))


def _as_floats(column: NDArray[Any]) -> NDArray[np.float64]:
    return np.array([zlib.crc32(cell.encode()) if isinstance(cell, str) else cell for cell in column], dtype=np.float64)


def _holds_text(X: Features) -> bool:
    """Whether a table of objects has columns of str or float alone, none mixed, and one of str."""
    if X.dtype != np.object_ or X.ndim != 2:
        return False
    kinds = [{type(value) for value in column} for column in X.T]
    return all(kind in ({str}, {float}) for kind in kinds) and {str} in kinds


def _of_objects(X: Features) -> bytes:
    """Numbers as those of a table without text, and then each column of text with its position."""
    is_text = [isinstance(value, str) for value in X[0]]
    numbers = X[:, np.flatnonzero(np.logical_not(is_text))].astype(np.float64)
    digest = hashlib.sha256(f"fedct public set with text 1 {X.shape}".encode())
    digest.update(PublicSet(numbers).fingerprint if numbers.size else b"")
    for position in np.flatnonzero(is_text):
        digest.update(f" {position}".encode())
        for text in X[:, position]:
            encoded = text.encode()
            digest.update(len(encoded).to_bytes(8, "little") + encoded)
    return digest.digest()


@dataclass(frozen=True, eq=False)
class SiloData:
    """One silo's records: ``private`` for training; ``test`` held out, possibly empty.

    ``groups`` and ``test_groups`` say which of them belong together (one patient's, say): a split of the private
    records keeps each group on one side. None where each record is by itself.
    """

    name: SiloName
    private: Examples
    test: Examples
    groups: Groups | None = None
    test_groups: Groups | None = None

    @property
    def units(self) -> int:
        """Number of units that a guarantee protects: private records, or groups where records have them."""
        return num_units(self.private.size, self.groups)


@dataclass(frozen=True, eq=False)
class FederatedDataset:
    """All that a simulation needs. ``test`` is the pooled test set, over all silos.

    ``truth`` ``(num_public,)`` are the labels, or values, that the public examples lost, where the data set knows them:
    to compare with, never to train on. ``notes`` are sentences about the data for the person who runs it, ``findings``
    and ``table_one`` the inspection of its tables; None where there are no tables. ``public_groups`` are numbered as
    the silos' are; None where the public set has no such column. ``moved`` says which column of a silo's table has
    another position than in the public set; empty for none.
    """

    name: str
    schema: "Schema"
    public: PublicSet
    silos: tuple[SiloData, ...]
    test: Examples
    truth: Answers | None = None
    notes: tuple[str, ...] = ()
    findings: "tuple[Finding, ...]" = ()
    table_one: "TableOne | None" = None
    public_groups: Groups | None = None
    moved: str = ""

    def __post_init__(self) -> None:
        if len(self.silos) < 2:
            found = f"only {self.silos[0].name!r}" if self.silos else "none"
            raise DataError(f"co-training needs at least two silos, found {found} in {self.name!r}")
        for silo in self.silos:
            if silo.private.size == 0:
                raise DataError(f"silo {silo.name!r} has no records to train on: add records or leave the silo out")
        self.schema.outcome.check_records((silo.private for silo in self.silos), self.name)

    @cached_property
    def fewest_units(self) -> int:
        """Private records of the smallest silo, or groups of them."""
        return min(silo.units for silo in self.silos)

    @cached_property
    def records_digest(self) -> str:
        """SHA-256 of sums over each silo's records and labels: the same however they are split and ordered."""
        digest = hashlib.sha256()
        for silo in self.silos:
            total = sum(_sum_of(part) for part in (silo.private, silo.test))
            digest.update(f"{silo.name} {silo.private.size + silo.test.size} {total % 2**64};".encode())
        return digest.hexdigest()

    def check_protected(self) -> None:
        """Raise DataError for groups of a silo that cannot be protected as patients."""
        for silo in self.silos:
            check_protected(silo.groups, silo.name)

    def position(self, silo: SiloName) -> int:
        """Position of a silo. Raises DataError for an unknown name."""
        names = [each.name for each in self.silos]
        if silo not in names:
            raise DataError(f"no silo {silo!r} in {self.name!r}: it has {', '.join(names)}")
        return names.index(silo)


def num_units(num_records: int, groups: Groups | None) -> int:
    """How many groups (patients, say) there are; each record is one where there are none."""
    return num_records if groups is None else len(np.unique(groups))


def unit_of_each(num_records: int, groups: Groups | None) -> NDArray[np.intp]:
    """The unit of each record ``(n,)``, numbered from 0: its group, or itself where there are none."""
    return np.arange(num_records) if groups is None else np.unique(groups, return_inverse=True)[1]


def hold_out(records: Examples, shares: tuple[float, ...], rng: Generator) -> list[Examples]:
    """Split records at random into parts of these shares (rounded down) and the rest, which comes last."""
    order = rng.permutation(records.size)
    cuts = np.cumsum([int(share * records.size + 1e-9) for share in shares])
    return [take(records, part) for part in np.split(order, cuts)]


def take(records: Examples, positions: NDArray[np.intp] | NDArray[np.bool_]) -> Examples:
    """The records at these positions, in their order; or those of a mask."""
    return Examples(records.X[positions], records.y[positions])


def pool(parts: list[Examples]) -> Examples:
    """All records of several parts together."""
    return Examples(np.concatenate([part.X for part in parts]), np.concatenate([part.y for part in parts]))


def shuffled(records: Examples, rng: Generator) -> Examples:
    """The examples in random order, so that a position tells nothing of where an example came from."""
    return take(records, rng.permutation(records.size))


_NUMBER: Final = r"^0*(\d+)(?:[.,]0?)?$"
"""With zeros in front, which spreadsheets take away, or as a float."""
_UUID: Final = r"^\{?([\da-f]{8})-?([\da-f]{4})-?([\da-f]{4})-?([\da-f]{4})-?([\da-f]{12})\}?$"


def column_of_groups(table: pa.Table, name: str, where: object, *, each: bool = False) -> pa.ChunkedArray:
    """The column ``name`` as text in small letters without blanks around it, null where a record has no group.

    Whole numbers are spelled alike however a table holds them: groups that differ in spelling alone would be on both
    sides of a split. Each record without a group counts as one of its own. Raises DataError, which quotes no record,
    for a column in which these, and words for a missing value, are the majority, unless ``each`` cell is for itself.
    """
    if name not in table.column_names:
        raise datasets.no_column(where, name, table.column_names, "group column")
    what = f"group column {quoted(name)} of {where}"
    text = pc.utf8_normalize(datasets.as_names(table.column(name), what), "NFKC")
    # Word processors and web pages put in other dashes, and invisible signs.
    for sign, usual in ((r"\p{Cf}", ""), (r"[\p{Pd}\x{2212}]", "-")):
        text = pc.replace_substring_regex(text, sign, usual)
    text = pc.replace_substring_regex(pc.utf8_lower(pc.utf8_trim_whitespace(text)), _UUID, r"\1-\2-\3-\4-\5")
    text = pc.replace_substring_regex(text, _NUMBER, r"\1")
    text = pc.if_else(pc.equal(text, ""), None, text)
    # A word for no value stays one group, whose records are kept together.
    words = pc.unique(text).drop_null()
    unknown = pc.is_in(text, value_set=words.filter(pa.array(datasets.are_missing(words.to_pylist()))))
    if not each and text.null_count + (pc.sum(unknown).as_py() or 0) > len(text) / 2:
        fix = "fill it in, or name another group column"
        raise DataError(f"{what} is empty in most records, so one patient's would be on both sides of a split: {fix}")
    return text


def numbered(columns: Sequence[pa.ChunkedArray]) -> list[Groups]:
    """Numbers for the groups of several tables, the same for the same text; below 0 that of a record without one."""
    sizes = [len(column) for column in columns]
    chunks = [chunk for column in columns for chunk in column.chunks]
    found = pa.chunked_array(chunks, pa.string()).combine_chunks().dictionary_encode().indices
    numbers = np.array(found.cast(pa.float64()))
    alone = np.isnan(numbers)
    numbers[alone] = -1 - np.arange(np.count_nonzero(alone))
    return np.split(numbers.astype(np.int64), np.cumsum(sizes)[:-1])


def check_protected(groups: Groups | None, silo: SiloName) -> None:
    """Raise DataError for groups that cannot be protected as patients: records without one, or one for all."""
    if groups is None:
        return
    if missing := int((groups < 0).sum()):
        raise DataError(
            f"silo {silo!r}: {count(missing, 'record')} without a value in the group column may belong to any "
            "patient, so none can be protected: fill them in, or take these records out"
        )
    if len(np.unique(groups)) == 1:
        raise DataError(f"silo {silo!r}: all records have the same value in the group column: name another one")


def first_of(groups: Groups | None) -> NDArray[np.intp] | slice:
    """The position of each group's first record; all records where there are no groups."""
    return slice(None) if groups is None else np.unique(groups, return_index=True)[1]


def split_off(
    records: Examples, share: float, rng: Generator, groups: Groups
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Positions of the records of this share of all groups, drawn at random, and of the others.

    The share is rounded down, but to one group at least where there are two.
    """
    names = np.unique(groups)
    size = int(share * len(names) + 1e-9)
    if share and len(names) > 1:
        size = max(1, size)
    if not size:
        return np.zeros(0, dtype=np.intp), np.arange(records.size)
    # scikit-learn takes its time to import, and most data sets have no groups.
    from sklearn.model_selection import GroupShuffleSplit

    drawn = GroupShuffleSplit(n_splits=1, test_size=size, random_state=int(rng.integers(2**32)))
    private, test = next(drawn.split(np.zeros(records.size), groups=groups))
    return test, private


def split_silo(name: str, records: Examples, groups: Groups | None, share: float, rng: Generator) -> SiloData:
    """A silo of which ``share`` of the groups is held out for testing, or of the records where there are none."""
    if groups is None:
        tested, own = hold_out(records, (share,), rng)
        return SiloData(name, own, tested)
    test, private = split_off(records, share, rng, groups)
    return SiloData(name, take(records, private), take(records, test), groups[private], groups[test])
