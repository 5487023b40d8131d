"""Base of all settings: frozen, validated once, and errors that name the key, the place and a remedy.

TOML from others is refused before it is parsed where parsing could take minutes or all memory: Python 3.11 to 3.13 keep
every beginning of a dotted key, so one key of 20,000 parts (40 kB) takes 8 s and 1.5 GB.
"""

import ipaddress
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, Self, TypeAlias, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic.fields import FieldInfo

from fedct_flwr.text.printable import LONGEST_NAME, LONGEST_PATH, cut, fault, formula_fault, printable, quoted, suggest
from fedct_flwr.types import ConfigError

MOST_BYTES: Final = 1 << 20
"""Of one file. The name of each of 30,000 classes fits in."""
MOST_PARTS: Final = 32
"""Of one key, such as ``a.b.c``. No settings of ours have more than four."""

# One pass from left to right, and what does not end goes to the end of its line or of the file, as for the parser: no
# text makes this slow, or hides a key from it that the parser would find.
_STRING_OR_COMMENT: Final = re.compile(
    r'"""(?:[^\\]|\\.)*?(?:"{3,5}|\\?\Z)'
    r"|'''.*?(?:'{3,5}|\Z)"
    r'|"(?:[^"\\\n]|\\[^\n])*"?'
    r"|'[^'\n]*'?"
    r"|\#[^\n]*",
    re.DOTALL,
)
_BETWEEN_KEYS: Final = re.compile(r"[=,\[\]{}\n]")


class TooLargeError(ValueError):
    """A file or a key is too long to be meant; the text says which and what to do, without the file."""


def read_bounded(path: Path, content: bytes = b"") -> dict[str, Any]:
    """Read a TOML file, or its ``content``. Raises TooLargeError, and all that ``open`` and ``tomllib`` raise."""
    if not content:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise TooLargeError(f"has more than {MOST_BYTES:,} bytes, too many for settings: name the right file")
    text = content.decode("utf-8-sig").replace("\r\n", "\n")
    if most_parts(text) > MOST_PARTS:
        raise TooLargeError(f"has a key of more than {MOST_PARTS} parts with points between them: take it out")
    return tomllib.loads(text)


def most_parts(text: str) -> int:
    """An upper bound on the parts of the longest key, in time proportional to the text.

    >>> most_parts('a.b."c.d" = "e.f.g.h.i" # j.k.l.m.n')
    3
    """
    bare = _STRING_OR_COMMENT.sub("", text)
    return 1 + max(between.count(".") for between in _BETWEEN_KEYS.split(bare))


# Flower carries signed 64-bit integers.
MAX_INT: Final = 2**63 - 1

_LONGEST_QUOTE: Final = 300
"""Characters of a wrong value that a message quotes."""


def _split_names(value: object) -> object:
    """Flower's run config has no lists, so lists of names are written with commas."""
    if isinstance(value, str):
        return tuple(name.strip() for name in value.split(",") if name.strip())
    return value


def _none_if_empty(value: object) -> object:
    """Flower's configs have no null; an empty text means that nothing is set."""
    return None if value == "" else value


def _beside_the_file(path: Path | None, info: ValidationInfo) -> Path | None:
    folder = (info.context or {}).get("folder")
    return Path(folder) / path if folder and path else path


def _visible(name: str) -> str:
    """Raise ValueError for a name with invisible characters, or one that is too long."""
    if why := fault(name, LONGEST_NAME):
        raise ValueError(f"{why}: rename it, or ask its author to")
    return name


def _class_name(name: str) -> str:
    if not name or name != name.strip():
        raise ValueError("it is empty, or begins or ends with a blank: rename it, or ask its author to")
    if why := formula_fault(name):
        raise ValueError(f"{why}: rename it, or ask its author to")
    return _visible(name)


def _visible_path(path: object) -> object:
    if why := fault(str(path), LONGEST_PATH):
        raise ValueError(f"{why}: name another path, or ask its author to")
    return path


Names = Annotated[tuple[str, ...], BeforeValidator(_split_names)]
OptionalPath = Annotated[Path | None, BeforeValidator(_none_if_empty)]
RelativePath = Annotated[Path, AfterValidator(_beside_the_file)]
"""A path in a settings file; a relative one starts at the file's folder."""
OptionalRelativePath = Annotated[Path | None, BeforeValidator(_none_if_empty), AfterValidator(_beside_the_file)]
"""The same, where nothing need be set."""
VisibleName = Annotated[str, AfterValidator(_visible)]
"""A name that others have given: it is printed where people decide by it, so it hides nothing."""
ClassName = Annotated[str, AfterValidator(_class_name)]
VisiblePath = Annotated[RelativePath, BeforeValidator(_visible_path)]
OptionalVisiblePath = Annotated[OptionalRelativePath, BeforeValidator(_visible_path)]


def one_of(names: Collection[str]) -> AfterValidator:
    """Refuse any other name with the nearest of these. An empty one among them stands for nothing, and is not named."""

    def known(name: str) -> str:
        if name not in names:
            raise ValueError(suggest(name, filter(None, names)))
        return name

    return AfterValidator(known)


def kebab(name: str) -> str:
    """How a field is written in files and in Flower's configs."""
    return name.replace("_", "-")


class Settings(BaseModel):
    """Settings with hyphens in their keys; unknown keys are errors that name the nearest known one."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=kebab,
        populate_by_name=False,
        strict=False,
        allow_inf_nan=False,
        # The comment on each key in a new silo.toml.
        use_attribute_docstrings=True,
        # So that the paths among them start at the file's folder too.
        validate_default=True,
    )

    @field_validator("*", mode="before")
    @classmethod
    def _no_truth_as_number(cls, value: object, info: ValidationInfo) -> object:
        if isinstance(value, bool) and cls.model_fields[info.field_name or ""].annotation in (int, float):
            raise ValueError("write a number")
        return value

    @property
    def given(self) -> list[str]:
        """Keys of the settings that differ from their defaults."""
        fields = type(self).model_fields
        defaults = {name: field.get_default(call_default_factory=True) for name, field in fields.items()}
        return [kebab(name) for name, default in defaults.items() if getattr(self, name) != default]

    def as_approved(self, younger: Collection[str]) -> dict[str, object]:
        """All fields, as JSON takes them, without those ``younger`` ones that have their defaults.

        So what was approved, or begun, before there were these stays what it was.
        """
        fields = type(self).model_fields
        same = {name for name in younger if getattr(self, name) == fields[name].default}
        return self.model_dump(mode="json", exclude=same)

    @classmethod
    def read(cls, raw: Mapping[str, Any], where: str, folder: Path | None = None) -> Self:
        """Settings from a mapping; relative paths start at ``folder``. Raises ConfigError, which names ``where``."""
        for path, key, known in _unknown(cls, raw):
            inside = f"[{path}] in {where}" if path else where
            raise ConfigError(f"unknown key {key!r} in {inside}: {suggest(key, known)}")
        try:
            return cls.model_validate(dict(raw), context={"folder": folder})
        except ValidationError as error:
            raise config_error(error, where) from None

    @classmethod
    def read_toml(cls, path: Path, content: bytes = b"") -> Self:
        """Settings from a TOML file, or its ``content``; relative paths start at its folder. Raises ConfigError."""
        try:
            raw = read_bounded(path, content)
        except FileNotFoundError:
            raise ConfigError(f"there is no file {path}") from None
        except OSError as error:
            raise ConfigError(f"cannot read {path}: {error.strerror}") from None
        except TooLargeError as error:
            raise ConfigError(f"{path} {error}") from None
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{path} is not TOML: {error}") from None
        return cls.read(raw, str(path), path.absolute().parent)


def config_error(error: ValidationError, where: str, names: Mapping[str, str] | None = None) -> ConfigError:
    """The first error as a sentence that names ``where``; ``names`` are keys of fields that have others there."""
    first = error.errors()[0]
    key = ".".join((names or {}).get(str(part), str(part)) for part in first["loc"])
    if first["type"] == "missing":
        return ConfigError(f"{key!r} is missing in {where}")
    reason = first["msg"].removeprefix("Value error, ")
    if not key or isinstance(first["input"], Mapping):
        inside = f"[{key}] in {where}" if key else where
        return ConfigError(f"settings in {inside} do not go together: {reason}")
    return ConfigError(f"{key} = {_quoted(first['input'])} in {where}: {reason}")


def _quoted(value: object) -> str:
    try:
        return cut(printable(repr(value)), _LONGEST_QUOTE)
    except ValueError:
        # TOML takes it in hexadecimal digits, and Python writes none so long in decimal ones.
        return "a number of thousands of digits"


def _unknown(model: type[BaseModel], raw: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str, list[str]]]:
    """Keys that no field has, in tables within tables too: the table's path, the key, and the keys that there are."""
    fields = {kebab(name): field for name, field in model.model_fields.items()}
    for key, value in raw.items():
        here = f"{path}.{key}" if path else key
        if key not in fields:
            yield path, key, list(fields)
        elif isinstance(value, Mapping) and (inner := table_of(fields[key])):
            if get_origin(fields[key].annotation) is dict:
                for name, table in value.items():
                    if isinstance(table, Mapping):
                        yield from _unknown(inner, table, f'{here}."{name}"')
            else:
                yield from _unknown(inner, value, here)


def table_of(field: FieldInfo) -> type[BaseModel] | None:
    """The settings that a field holds: one, or in a dict one for each name."""
    kinds = [field.annotation, *get_args(field.annotation)]
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), None)


# --- names of studies and silos, and addresses

# They become names of files, certificates and containers, and people compare keys and fingerprints next to them. So
# neither holds a blank, nor anything else that could read like a sentence of ours or look like another name.
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_HOW: Final = "write at most 64 letters of A to Z, digits, '.', '_' and '-', with a letter or a digit first"
_HOST: Final = re.compile(r"(?!-)[\w-]{1,63}(\.[\w-]{1,63})*\.?")
_LONGEST_HOST: Final = 253
_PORTS: Final = 1 << 16
_ADDRESS: Final = "write host:port, such as host:8000"


def check_name(name: str) -> None:
    """Raise ConfigError for what is no silo's name."""
    if why := name_fault(name):
        raise ConfigError(why)


def name_fault(name: str) -> str | None:
    """Why this may not name a silo, as a sentence; None where it may.

    >>> name_fault("essen-2"), name_fault("essen 2")[:31]
    (None, "'essen 2' is no silo's name: wr")
    """
    return None if _NAME.fullmatch(name) else f"{quoted(name)} is no silo's name: {_HOW}"


def split_address(address: str) -> tuple[str, int]:
    """Host and port of ``host:port``; an IPv6 address may stand in brackets. Raises ValueError.

    >>> split_address("[::1]:9094")
    ('::1', 9094)
    """
    host, _, port = address.rpartition(":")
    host = host[1:-1] if host[:1] == "[" and host[-1:] == "]" else host
    if not (port.isascii() and port.isdecimal() and 0 < int(port[:6]) < _PORTS and _is_host(host)):
        raise ValueError(_ADDRESS)
    return host, int(port)


def _is_host(host: str) -> bool:
    if ":" in host:
        try:
            # A zone behind it may be any text.
            return "%" not in host and bool(ipaddress.IPv6Address(host))
        except ValueError:
            return False
    return len(host) <= _LONGEST_HOST and fault(host) is None and _HOST.fullmatch(host) is not None


def _name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(_HOW)
    return name


def _address(address: str) -> str:
    if why := fault(address):
        raise ValueError(why)
    split_address(address)
    return address


Name = Annotated[str, AfterValidator(_name)]
"""A study's or a silo's name."""
Address = Annotated[str, AfterValidator(_address)]
"""``host:port``."""

_MOST_NAMED: Final = 4
_EXAMPLES: Final = 3


class Needs(NamedTuple):
    """Further need of a setting: ``words`` for the sentence, ``met`` whether a run has it."""

    words: str
    met: Callable[[Any], bool]


NOTHING_ELSE: Final = Needs("", lambda config: True)

Uses: TypeAlias = dict[str, Needs]
"""The keys that a part of a run uses, and what each needs besides."""


def uses(*keys: str, needs: Needs = NOTHING_ELSE) -> Uses:
    """These keys, all with the same needs.

    >>> sorted(uses("quorum") | uses("gamma", needs=Needs("noise", lambda config: False)))
    ['gamma', 'quorum']
    """
    return dict.fromkeys(keys, needs)


class Choice(NamedTuple):
    """A setting that decides which others have an effect: the names that are ``chosen``, and what each option uses.

    ``words`` say in a sentence how to choose other names, which stand for ``{}``.
    """

    words: str
    chosen: Collection[str]
    options: Mapping[str, Uses]


def why_without_effect(key: str, choices: Iterable[Choice], config: object) -> str:
    """One sentence for a key that no choice uses although its other options would; empty where it has an effect.

    >>> choice = Choice("algorithm = {}", ["fedct"], {"fedprox": uses("proximal-mu"), "fedct": {}})
    >>> why_without_effect("proximal-mu", [choice], None)
    "proximal-mu has no effect without algorithm = 'fedprox': set that, or leave it out"
    """
    concerned = [choice for choice in choices if any(key in used for used in choice.options.values())]
    used = [choice.options.get(name, {}) for choice in concerned for name in choice.chosen]
    needs = [keys[key] for keys in used if key in keys]
    if not concerned or any(need.met(config) for need in needs):
        return ""
    wanted = [need.words for need in needs]
    for choice in [] if needs else concerned:
        names = [name for name, keys in choice.options.items() if key in keys]
        few = f"{', '.join(map(repr, names[:_EXAMPLES]))} or others" if len(names) > _MOST_NAMED else either(names)
        wanted.append(choice.words.format(few))
    return f"{key} has no effect without {' or '.join(dict.fromkeys(wanted))}: set that, or leave it out"


def either(names: Sequence[str]) -> str:
    """These names as alternatives.

    >>> either(["a", "b", "c"])
    "'a', 'b' or 'c'"
    """
    *others, last = map(repr, names)
    return f"{', '.join(others)} or {last}" if others else last
