"""Contents of a folder of tables: the public set, a file for each silo, their test files, and unused files."""

import re
import unicodedata
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fedct_flwr.config.tables import DATA_FILE, FileForm, FolderTables
from fedct_flwr.datasets.table_files import ENDINGS
from fedct_flwr.text.printable import fault, quoted, suggest
from fedct_flwr.types import ConfigError, DataError, SiloName

PUBLIC: Final = "public"
TEST: Final = ".test"
_PUBLIC: Final = re.compile(r"public|unlabel+ed|öffentlich|oeffentlich", re.IGNORECASE)
_TEST_SET: Final = re.compile(r"(?:(.*?)[\W_]+)?(?:test|holdout|val|validation)[\W_]*(?:set|data)?", re.IGNORECASE)
"""Names that say a test set without the point that tells one."""


@dataclass(frozen=True)
class TableFolder:
    """The files of a folder. ``tests`` maps silos to their own test files, for those that have one.

    ``unused`` are the names of all files and folders in it that are not read, sorted; what systems hide is not named.
    """

    public: Path | None
    silos: dict[SiloName, Path]
    tests: dict[SiloName, Path]
    unused: tuple[str, ...]

    @property
    def tables(self) -> tuple[Path, ...]:
        """All files that are read, the public one first."""
        return (*filter(None, [self.public]), *self.silos.values(), *self.tests.values())


def name_and_ending(path: Path) -> tuple[str, str]:
    """The name of a table's file without its ending, and the ending in small letters; empty for another kind of file.

    >>> name_and_ending(Path("wards/Essen.CSV.gz")), name_and_ending(Path("notes.docx"))
    (('Essen', '.csv.gz'), ('notes.docx', ''))
    """
    for ending in ENDINGS:
        if path.name.lower().endswith(ending) and len(path.name) > len(ending):
            return path.name[: -len(ending)], ending
    return path.name, ""


def holds_tables(folder: Path) -> bool:
    """Whether there is a table in a folder, if it is one."""
    return folder.is_dir() and any(name_and_ending(path)[1] for path in folder.iterdir() if path.is_file())


def read_folder(folder: Path, settings: FolderTables | None = None, *, drawn: bool = False) -> TableFolder:
    """Role of each file, by its name and the ``settings`` of ``data.toml``; no table is opened.

    ``public.csv`` is the public set, ``NAME.csv`` silo NAME, and ``NAME.test.csv`` that silo's own test file, each with
    any ending of ``ENDINGS``. Raises DataError where a file is missing or there twice, or a test set has no silo;
    ConfigError where ``data.toml`` names a file that is not there. A public set that is ``drawn`` needs no file.
    """
    if not folder.is_dir():
        raise DataError(f"no folder {folder}: data-dir must hold {PUBLIC}.csv and a file for each silo")
    forms = {path: settings.form(path.name) for path in sorted(folder.iterdir())} if settings else {}
    found: dict[str, Path] = {}
    tests: dict[SiloName, Path] = {}
    unused = []
    for path in sorted(folder.iterdir()):
        name, ending = name_and_ending(path)
        form = forms.get(path)
        if path.name.startswith((".", "~$")) or path.name == DATA_FILE:
            # Spreadsheets, macOS and editors leave such files next to a table that is open.
            continue
        if not ending or path.is_dir() or path.name.startswith("~"):
            # The latter is what some editors call an older state of a file.
            unused.append(path.name)
            continue
        # Some systems tell no capital letters from small ones.
        name = PUBLIC if name.casefold() == PUBLIC else unicodedata.normalize("NFC", name)
        is_test = name.lower().endswith(TEST) and not (form and form.silo)
        silo = name[: -len(TEST)] if is_test else (form and form.silo) or name
        group = tests if is_test else found
        if other := next((known for known in group if known.casefold() == silo.casefold()), None):
            raise DataError(
                f"{folder} has two tables for {quoted(name)}, {quoted(group[other].name)} and {quoted(path.name)}: "
                "keep one of them, or rename one"
            )
        if why := fault(silo):
            raise DataError(f"{quoted(path.name)} in {folder} names no silo, as {why}: rename it")
        group[silo] = path
    _check_listed(folder, settings, forms)
    if PUBLIC not in found and not drawn:
        alike = next((name for name in [*found, *unused] if _PUBLIC.search(name)), "")
        remedy = f"if {quoted(alike)} is the public set, save it as {PUBLIC}.csv next to the silos' tables"
        remedy = remedy if alike else "the public set is what silos label"
        endings = f"{', '.join(ENDINGS[1:-1])} or {ENDINGS[-1]}"
        raise DataError(f"no {PUBLIC}.csv in {folder}, nor one with {endings}: {remedy}")
    public = found.pop(PUBLIC, None)
    if not found:
        raise DataError(f"no silo's file in {folder}: next to {PUBLIC}.csv there must be one for each silo")
    named = {form.silo for form in forms.values() if form and form.silo}
    _check_tests(folder, found, tests, named)
    return TableFolder(public, found, tests, tuple(unused))


def _check_listed(folder: Path, settings: FolderTables | None, forms: dict[Path, FileForm | None]) -> None:
    if settings and len(settings.files) > sum(form is not None for form in forms.values()):
        known = [path.name for path in forms if name_and_ending(path)[1]]
        unknown = next(
            name for name in settings.files if not any(form is settings.files[name] for form in forms.values())
        )
        raise ConfigError(
            f"[files.{quoted(unknown)}] in {folder / DATA_FILE} is about a file that is not there: "
            f"{suggest(unknown, known)}"
        )


def _check_tests(
    folder: Path, silos: dict[SiloName, Path], tests: dict[SiloName, Path], named: Collection[SiloName]
) -> None:
    """Raise DataError for test files without a silo, and for those that would be a silo without being ``named``."""
    for silo, path in tests.items():
        if silo not in silos:
            raise DataError(
                f"{quoted(path.name)} in {folder} is the test file of silo {quoted(silo)}, which has no file there: "
                f"{suggest(silo, silos)}"
            )
    for name, path in silos.items():
        if name not in named and (like := _TEST_SET.fullmatch(name)):
            stem = quoted(f"{like[1] or 'NAME'}{TEST}{name_and_ending(path)[1]}")
            raise DataError(
                f"{quoted(path.name)} in {folder} would become a silo of its own: rename it to {stem} if it is that "
                f"silo's test file, or write silo = '...' under [files.{quoted(path.name)}] in {DATA_FILE} if not"
            )
