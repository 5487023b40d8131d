"""A folder of images as a federation: ``public/`` with images, and for each silo a folder with one folder per class.

A folder ``NAME.test`` in the same form holds the images that silo ``NAME`` is tested with.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fedct_flwr.config import RunConfig
from fedct_flwr.config.tables import DATA_FILE, FolderTables, TableSettings
from fedct_flwr.datasets.federated import FederatedDataset, SiloData, pool
from fedct_flwr.datasets.folder import PUBLIC, TEST, holds_tables
from fedct_flwr.datasets.groups import split_silo
from fedct_flwr.datasets.image_folder import (
    groups_of,
    images_among,
    images_in,
    labeled_images_in,
    listed_in,
    numbered_groups,
    read_images,
    usual_form,
)
from fedct_flwr.datasets.labels import all_classes, class_name, encode_labels
from fedct_flwr.datasets.public_set import PublicSet
from fedct_flwr.datasets.schema import ImageForm, Schema
from fedct_flwr.seeding import generator
from fedct_flwr.text.plural import count
from fedct_flwr.text.printable import fault, listed, quoted
from fedct_flwr.text.suggest import suggest
from fedct_flwr.types import ConfigError, DataError, Examples, Groups, SiloName

_SYSTEMS: Final = "__"
"""What archives of other systems leave behind begins so."""
_UNUSED: Final = ("group", "text", "categories", "leave_out", "missing", "separator", "dates")
"""What ``data.toml`` says of tables alone."""


def holds_images(folder: Path) -> bool:
    """Whether a folder is one of images: it has a folder ``public``. Raises DataError for a table next to it."""
    if not (folder / PUBLIC).is_dir() or (
        holds_tables(folder / PUBLIC) and not images_among(listed_in(folder / PUBLIC))
    ):
        return False
    if table := next(
        (path for path in listed_in(folder) if path.is_file() and path.stem.split(".")[0] == PUBLIC), None
    ):
        raise DataError(
            f"{folder} has both a folder {PUBLIC} and {quoted(table.name)}: keep the public set as images or as a table"
        )
    return True


def load(config: RunConfig) -> FederatedDataset:
    """``data-dir`` holds folders of images as described above; ``data.toml`` in it may say their form.

    Silos without a test folder hold ``test-fraction`` of their images out. Raises ConfigError for settings of tables,
    DataError for folders and images that cannot be used, by the folder's name.
    """
    folder = Path(config.data_dir)
    of_tables = [
        name for name in ("label-column", "text-columns", "group-column") if getattr(config, name.replace("-", "_"))
    ]
    of_tables += ["outcome"] if config.outcome != "class" else []
    told = TableSettings.of_folder(folder)
    of_tables += [name for name in told.given if name.replace("-", "_") in _UNUSED]
    if of_tables:
        raise ConfigError(
            f"{of_tables[0]} is for tables, and {folder} holds images, whose classes are names of folders: leave it out"
            f"; which images belong together, group-pattern under [images] in {folder / DATA_FILE} says"
        )
    public = images_in(folder / PUBLIC)
    form, notes = _form(told, public, folder)
    silos, tests = _silos(folder)
    found = [_Labeled.of(path) for path in silos.values()]
    held_out = {silo: _Labeled.of(path) for silo, path in tests.items()}
    classes = _classes(found)
    for labeled in held_out.values():
        if unknown := sorted(set(labeled.names) - set(classes)):
            raise DataError(
                f"{labeled.folder} has the class {listed(unknown, 3)}, which no silo is trained on: there are "
                f"{listed(classes)}"
            )
    parts = []
    for silo, labeled in zip(silos, found, strict=True):
        records = labeled.read(form, classes)
        groups, rng = labeled.groups(told.images.group_pattern), generator(config.seed, "split", silo)
        if silo in held_out:
            of_test = held_out[silo].groups(told.images.group_pattern)
            _check_apart(labeled, held_out[silo], told.images.group_pattern)
            parts.append(SiloData(silo, records, held_out[silo].read(form, classes), groups, of_test))
        else:
            parts.append(split_silo(silo, records, groups, config.test_fraction, rng))
    used = {*public, *(path for labeled in (*found, *held_out.values()) for path in labeled.paths)}
    if unused := [*_unused(folder, used)]:
        notes += (f"not used in {folder}: {listed([str(path.relative_to(folder)) for path in unused])}",)
    return FederatedDataset(
        name=str(folder),
        schema=Schema(classes, images=form),
        public=PublicSet(read_images(public, *form, named=True)),
        silos=tuple(parts),
        test=pool([part.test for part in parts]),
        notes=notes,
    )


@dataclass(frozen=True)
class _Labeled:
    """The images of one silo, and the class of each."""

    folder: Path
    paths: Sequence[Path]
    names: Sequence[str]

    @classmethod
    def of(cls, folder: Path) -> "_Labeled":
        paths, names = labeled_images_in(folder)
        return cls(folder, paths, [class_name(name) for name in names])

    def read(self, form: ImageForm, classes: Sequence[str]) -> Examples:
        return Examples(read_images(self.paths, *form, named=True), encode_labels(self.names, classes))

    def groups(self, pattern: str) -> Groups | None:
        """Which images belong together."""
        return numbered_groups(self.paths, pattern)


def _check_apart(trained: _Labeled, tested: _Labeled, pattern: str) -> None:
    """Raise DataError where a group is both trained on and tested with."""
    both = {*(groups_of(trained.paths, pattern) or ())} & {*(groups_of(tested.paths, pattern) or ())}
    if both:
        raise DataError(
            f"images of {count(len(both), 'group')} are both in {trained.folder} and in {tested.folder}: keep all "
            "images of a group in one of them"
        )


def _form(told: FolderTables, public: Sequence[Path], folder: Path) -> tuple[ImageForm, tuple[str, ...]]:
    """How images are read, and the sentence that says so where ``data.toml`` does not."""
    images = told.images
    if images.size and images.mode:
        return ImageForm(images.size, images.mode), ()
    usual = usual_form(public, named=True)
    form = ImageForm(images.size or usual.size, images.mode or usual.mode)
    height, width = form.size
    return form, (
        f"images are read with {height} x {width} pixels in {form.mode}, by those of {folder / PUBLIC}: for another "
        f"form write size = [{height}, {width}] and mode = '{form.mode}' under [images] in {folder / DATA_FILE}",
    )


def _silos(folder: Path) -> tuple[dict[SiloName, Path], dict[SiloName, Path]]:
    """The folders of silos, and of their test sets, by silo."""
    folders = [
        path
        for path in listed_in(folder)
        if path.is_dir() and path.name != PUBLIC and not path.name.startswith(_SYSTEMS)
    ]
    tests = {path.name[: -len(TEST)]: path for path in folders if path.name.lower().endswith(TEST)}
    silos = {path.name: path for path in folders if not path.name.lower().endswith(TEST)}
    if not silos:
        raise DataError(
            f"no silo's folder in {folder}: next to {PUBLIC} there must be one for each silo, with a folder for each "
            "class"
        )
    for silo, path in tests.items():
        if silo not in silos:
            raise DataError(f"{quoted(path.name)} in {folder} is the test set of no silo: {suggest(silo, silos)}")
    return silos, tests


def _classes(found: Iterable[_Labeled]) -> tuple[str, ...]:
    """All classes of all silos. Raises DataError for one alone, two spellings, and names that hide something."""
    where: dict[str, Path] = {}
    for labeled in found:
        for name in labeled.names:
            where.setdefault(name, labeled.folder)
    classes = all_classes(set(where))
    if len(classes) == 1:
        raise DataError(f"all images of the silos are of class {quoted(classes[0])}: at least two classes are needed")
    for name, folder in where.items():
        if why := fault(name):
            raise DataError(f"a folder of a class in {folder} cannot be taken, as {why}: rename it")
    spelled = {"".join(name.casefold().split()): name for name in classes}
    if len(spelled) < len(classes):
        one = next(name for name in classes if name not in spelled.values())
        other = spelled["".join(one.casefold().split())]
        raise DataError(
            f"the classes {quoted(one)} in {where[one]} and {quoted(other)} in {where[other]} differ in case or blanks "
            "alone: name both folders alike"
        )
    return classes


def _unused(folder: Path, used: set[Path]) -> Iterator[Path]:
    """Files, and folders without anything used, that nothing was read from; what systems hide is not named."""
    for path in listed_in(folder):
        if path in used or path.name == DATA_FILE:
            continue
        if path.is_dir() and any(below in used for below in path.rglob("*")):
            yield from _unused(path, used)
        else:
            yield path
