"""``fedct silo init``: a silo's folder, whole or not at all, with each key of ``silo.toml`` and what it means."""

import secrets
import shutil
import tempfile
import textwrap
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import tomli_w
import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from fedct_flwr.cli.output import Output
from fedct_flwr.cli.silo.folder import SILO_FILE, check_new
from fedct_flwr.config.learner import AUTO
from fedct_flwr.config.settings import kebab, table_of
from fedct_flwr.config.silo import Policy, SiloConfig
from fedct_flwr.config.study import StudyConfig
from fedct_flwr.config.tables import TableForm
from fedct_flwr.consensus.grades import GRADES
from fedct_flwr.datasets.study_folder import STUDY_FILE, check_plain, copy_study, read_study
from fedct_flwr.files import write_atomically
from fedct_flwr.hospital.keys import create_egress_key, create_node_key
from fedct_flwr.learners.catalog import LANGUAGE, SHORT_NAMES, TORCHVISION, package
from fedct_flwr.text.printable import from_here, in_shell, suggest
from fedct_flwr.types import ConfigError
from fedct_flwr.wire.numbers import VALUES

_SECRET_BYTES: Final = 32
_SOMEWHERE: Final = "localhost:8000"

_LEARNERS: Final = (AUTO, *SHORT_NAMES, *LANGUAGE)
"""Learners that predict classes."""

NewFolder: TypeAlias = Annotated[Path, typer.Argument(help="The folder to make.")]
Records: TypeAlias = Annotated[
    Path,
    typer.Option(
        help="The silo's records: a table (CSV, TSV, Excel, Parquet), a folder of images, or SQL (--database)."
    ),
]
Database: TypeAlias = Annotated[
    str,
    typer.Option(help="Database for SQL: postgresql://..., a SQLite or DuckDB file, a folder of Parquet."),
]
Label: TypeAlias = Annotated[str, typer.Option(help="The label column of the records; not for images.")]
Learner: TypeAlias = Annotated[
    str,
    typer.Option(help="Learner: a short name, or an import path."),
]


def init(
    folder: NewFolder,
    data: Records,
    silo: Annotated[str, typer.Option(help="The silo's name.")],
    study: Annotated[Path, typer.Option(help="The study's folder.")],
    label: Label = "",
    superlink: Annotated[str, typer.Option(help="The coordinator's address, HOST:PORT.")] = "",
    ca: Annotated[Path | None, typer.Option(help="The coordinator's certificate, ca.crt.")] = None,
    learner: Learner = AUTO,
    database: Database = "",
) -> None:
    """Make a silo's folder by hand: settings with every key explained, keys, a secret, and a copy of the study.

    With an invitation from the coordinator, fedct silo join does all of this. Nothing is overwritten. The folder is
    made as a whole or not at all, and only its owner may read it.
    """
    made = make_silo(NewSilo(folder, data, silo, study, label, superlink, ca, learner=learner, database=database))
    say_to_send(made)
    if not superlink:
        Output().say(f"Ask the coordinator for its address, and write it into {made / SILO_FILE} as superlink")
    if not ca:
        Output().say(f"Ask the coordinator for ca.crt, and put it into {made / 'connection'}")
    Output().say(
        "If the coordinator's gateway asks for a certificate, take an invitation instead: fedct silo join INVITATION"
    )
    say_next(made, data)


@dataclass(frozen=True)
class NewSilo:
    """Contents of a silo's folder. ``clients``: a client certificate and its key. ``more``: texts of more files.

    ``given`` are keys of ``silo.toml`` that are not as they would be here, such as paths in a container.
    """

    folder: Path
    data: Path
    silo: str
    study: Path
    label: str = ""
    superlink: str = ""
    ca: Path | None = None
    clients: tuple[Path, ...] = ()
    learner: str = AUTO
    database: str = ""
    given: Mapping[str, object] = field(default_factory=dict)
    more: Mapping[str, bytes] = field(default_factory=dict)


def make_silo(new: NewSilo) -> Path:
    """Make a silo's folder, whole or not at all. Returns it as it is shown. Raises ConfigError."""
    folder, study, data = new.folder.absolute(), new.study, new.data.absolute()
    check_new(folder)
    if Path.cwd().resolve().is_relative_to(folder.resolve()):
        raise ConfigError(f"{folder} is where this command runs, and would be replaced: name it from the folder above")
    # Before a byte of what came from elsewhere is read.
    if study.is_dir():
        check_plain(study)
    agreed = StudyConfig.read_toml(study / STUDY_FILE)
    _check(agreed, new.label, new.ca, new.learner)
    # The limits are what max-rounds rounds about all public examples need.
    rounds, public = Policy.model_fields["max_rounds"].default, len(read_study(study).public)
    database = new.database if "://" in new.database else new.database and str(Path(new.database).absolute())
    given: dict[str, object] = {
        "silo": new.silo,
        # Relative where it lies in the silo's folder.
        f"data.{'query' if database else 'file'}": str(
            data.relative_to(folder) if data.is_relative_to(folder) else data
        ),
        **({"data.database": database} if database else {}),
        "data.label": new.label,
        "learner.name": new.learner,
        # The hospital itself has named the learner, and so trusts its package.
        "learner.packages": [] if new.learner in {*_LEARNERS} - {TORCHVISION} else [package(new.learner)],
        # Images have no label column, and no statistics of columns.
        "learner.preprocessing": AUTO if new.label else "none",
        # A silo.toml without the key is one of before there was a safeguard, and stays as it was approved.
        "learner.pseudo-weight": AUTO,
        **({"policy.kinds": [VALUES.policy]} if agreed.number else {}),
        "policy.max-queries": rounds * public,
        # Secure sums have the longest replies: 8 bytes for each class of an example.
        "policy.max-bytes": rounds
        * (8 * public * max(len(agreed.classes), GRADES if agreed.survival else 1) + _AROUND),
        "connection.superlink": new.superlink or _SOMEWHERE,
        **new.given,
    }
    needed = f"Here: what {rounds} rounds about all {public:,} public examples need."
    more = {
        "data.mapping": f"The study's classes: {_toml(list(agreed.classes))}",
        "policy.max-queries": needed,
        "policy.max-bytes": f"{needed} In secure sums, which are longest.",
    }
    text = "\n".join([_HEAD, *_table(SiloConfig, "", given, more)])
    # Before anything is made, and without the name of a file that will not be: what is written must be read.
    SiloConfig.read(tomllib.loads(text), "what was asked for", folder)
    if folder.resolve().is_relative_to(study.resolve()):
        raise ConfigError(f"{folder} lies in the study {study} that it would get a copy of: choose another folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        write_atomically(temporary / SILO_FILE, text.encode())
        config = SiloConfig.read_toml(temporary / SILO_FILE)
        copy_study(study, config.study)
        _make_keys(config)
        if new.ca:
            shutil.copyfile(new.ca, config.connection.ca_certificate)
        for path in new.clients:
            write_atomically(temporary / "connection" / path.name, path.read_bytes())
        for name, content in new.more.items():
            write_atomically(temporary / name, content)
        temporary.rename(folder)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return from_here(folder)


def _check(agreed: StudyConfig, label: str, ca: Path | None, learner: str) -> None:
    """Raise ConfigError for what would make a folder that cannot work."""
    if not label and not agreed.image_size:
        raise ConfigError("--label is missing: name the label column of the records")
    if ca and not ca.is_file():
        raise ConfigError(f"there is no file {ca}: ask the coordinator for ca.crt")
    if learner not in _LEARNERS and "." not in learner:
        raise ConfigError(f"unknown learner {learner!r}: {suggest(learner, _LEARNERS)} (or give an import path)")


def _make_keys(config: SiloConfig) -> None:
    """The folders that a silo keeps to itself, its keys, and what its agent shows to the SuperNode."""
    for path in (config.egress_key.parent, config.connection.node_key.parent, config.state):
        path.mkdir(mode=0o700)
    create_egress_key(config.egress_key)
    create_node_key(config.connection.node_key)
    write_atomically(config.connection.secret, secrets.token_hex(_SECRET_BYTES).encode())


def say_to_send(made: Path) -> None:
    """Name the new folder, and the file that the coordinator needs."""
    Output().say(f"{in_shell(made)} is made; only you can read it.")
    Output().say(f"Send to the coordinator: {in_shell(made / 'connection' / 'node.key.pub')} (public, no secret)")


def say_next(made: Path, data: Path) -> None:
    """Name the next steps."""
    if not data.exists():
        Output().say(
            f"There is nothing at {in_shell(data)} yet: put the records there, or change file in {made / SILO_FILE}"
        )
    Output().say(f"Next: fedct silo check {in_shell(made)}")


_WIDTH: Final = 120
_HEAD: Final = """\
# The settings of one silo, which the silo alone decides. Relative paths start at this file's folder.
# After a change nothing leaves: see fedct silo check, then fedct silo approve.
"""
_AS_COMMENTS: Final = frozenset({"data.tables", "data.images", "records", "governance"})
"""Tables that a silo rarely needs."""
_EXAMPLES: Final[Mapping[str, str]] = {
    "approvers": '# approvers = { anna = "keys/anna.pub", ben = "keys/ben.pub" }',
    "data.query": '# query = "cohort.sql"',
    "data.database": '# database = "postgresql://database.hospital:5432/clinic"',
    "data.query-timeout": "# query-timeout = 300",
    "data.test-file": '# test-file = "test.csv"',
    "data.mapping": '# [data.mapping]\n# "what the records say" = "a class of the study"',
    "learner.params": "# [learner.params]\n# max_depth = 5",
}
"""Keys without a default that TOML can write."""
_AROUND: Final = 10_000
"""Bytes of a reply that are no labels: keys, and shares of secrets for the other silos."""


def _table(model: type[BaseModel], path: str, given: Mapping[str, object], more: Mapping[str, str]) -> Iterator[str]:
    """Lines of a table: its keys, then the tables in it."""
    inner: list[tuple[str, FieldInfo]] = []
    fields = {kebab(name): info for name, info in model.model_fields.items()}
    if path == "data.tables":
        # Only the study decides the kinds of columns.
        fields = {key: info for key, info in fields.items() if key in map(kebab, TableForm.model_fields)}
    for key, info in fields.items():
        here = f"{path}.{key}" if path else key
        if table_of(info) or (here in _EXAMPLES and "[" in _EXAMPLES[here]):
            inner.append((here, info))
            continue
        lines = [*_comment(f"{' '.join((info.description or '').split())} {more.get(here, '')}")]
        example = None if here in given else _EXAMPLES.get(here)
        lines.append(example or f"{key} = {_toml(given.get(here, _default(info)))}")
        yield from (line if path not in _AS_COMMENTS or line.startswith("#") else f"# {line}" for line in lines)
        yield ""
    for here, info in inner:
        yield ""
        if (table := table_of(info)) is None:
            yield from (*_comment(f"{info.description or ''} {more.get(here, '')}"), *_EXAMPLES[here].split("\n"), "")
            continue
        yield from _comment(info.description or (table.__doc__ or "").partition("\n\n")[0])
        yield f"# [{here}]" if here in _AS_COMMENTS else f"[{here}]"
        yield from _table(table, here, given, more)


def _default(field: FieldInfo) -> object:
    found = "" if field.is_required() else field.get_default(call_default_factory=True)
    if found is None:
        return ""
    return list(found) if isinstance(found, tuple) else found if isinstance(found, bool | int | float) else str(found)


def _comment(text: str) -> Iterator[str]:
    comment = " ".join(text.replace("``", '"').split())
    if comment:
        yield textwrap.fill(comment, _WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)


def _toml(value: object) -> str:
    """A value as TOML writes it, on one line."""
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return tomli_w.dumps({"key": value}).removeprefix("key = ").rstrip("\n")
