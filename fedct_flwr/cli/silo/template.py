"""The text of a new ``silo.toml``: each key with its default, under what the settings' own docstrings say of it."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import tomli_w
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from fedct_flwr.config import SiloConfig
from fedct_flwr.config.learner import AUTO
from fedct_flwr.config.settings import kebab, table_of
from fedct_flwr.config.silo import Policy
from fedct_flwr.config.tables import TableForm

_WIDTH: Final = 120
_HEAD: Final = """\
# The settings of one silo. Nobody else has a say in them. Relative paths start at this file's folder.
# After a change nothing leaves: see fedct silo check, then fedct silo approve.
"""
_AS_COMMENTS: Final = frozenset({"data.tables", "data.images", "records"})
"""Tables that a silo rarely needs."""
_EXAMPLES: Final[Mapping[str, str]] = {
    "approvers": '# approvers = { anna = "keys/anna.pub", ben = "keys/ben.pub" }',
    "data.test-file": '# test-file = "test.csv"',
    "data.mapping": '# [data.mapping]\n# "what the records say" = "a class of the study"',
    "learner.params": "# [learner.params]\n# max_depth = 5",
}
"""Keys without a default that TOML can write."""
_AROUND: Final = 10_000
"""Bytes of a reply that are no labels: keys, and shares of secrets for the other silos."""


def silo_toml(
    *,
    silo: str,
    data: str,
    label: str,
    classes: Sequence[str],
    learner: str,
    packages: Sequence[str],
    superlink: str,
    public: int,
    supernode: str = "",
) -> str:
    """The settings of a new silo; what is not given stands there with its default.

    The limits are what ``max-rounds`` rounds about all ``public`` examples need.
    """
    rounds = Policy.model_fields["max_rounds"].default
    given: dict[str, object] = {
        "silo": silo,
        "data.file": data,
        "data.label": label,
        "learner.name": learner,
        "learner.packages": list(packages),
        # Images have no label column, and no statistics of columns.
        "learner.preprocessing": "standard" if label else "none",
        # A silo.toml without the key is one of before there was a guard, and stays as it was approved.
        "learner.pseudo-weight": AUTO,
        "policy.max-queries": rounds * public,
        # Secure sums have the longest replies: 8 bytes for each class of an example.
        "policy.max-bytes": rounds * (8 * public * max(len(classes), 1) + _AROUND),
        "connection.superlink": superlink,
        **({"connection.supernode": supernode} if supernode else {}),
    }
    needed = f"Here: what {rounds} rounds about all {public:,} public examples need."
    more = {
        "data.mapping": f"The study's classes: {_toml(list(classes))}",
        "policy.max-queries": needed,
        "policy.max-bytes": needed,
    }
    return "\n".join([_HEAD, *_table(SiloConfig, "", given, more)])


def _table(model: type[BaseModel], path: str, given: Mapping[str, object], more: Mapping[str, str]) -> Iterator[str]:
    """Lines of a table: its keys, then the tables in it."""
    inner: list[tuple[str, FieldInfo]] = []
    fields = {kebab(name): field for name, field in model.model_fields.items()}
    if path == "data.tables":
        # What columns are, only the study says.
        fields = {key: field for key, field in fields.items() if key in map(kebab, TableForm.model_fields)}
    for key, field in fields.items():
        here = f"{path}.{key}" if path else key
        if table_of(field) or (here in _EXAMPLES and "[" in _EXAMPLES[here]):
            inner.append((here, field))
            continue
        lines = [*_comment(f"{' '.join((field.description or '').split())} {more.get(here, '')}")]
        lines.append(_EXAMPLES.get(here) or f"{key} = {_toml(given.get(here, _default(field)))}")
        yield from (_off(line) if path in _AS_COMMENTS else line for line in lines)
        yield ""
    for here, field in inner:
        yield ""
        if (table := table_of(field)) is None:
            yield from (*_comment(f"{field.description or ''} {more.get(here, '')}"), *_EXAMPLES[here].split("\n"), "")
            continue
        yield from _comment(field.description or (table.__doc__ or "").partition("\n\n")[0])
        yield f"# [{here}]" if here in _AS_COMMENTS else f"[{here}]"
        yield from _table(table, here, given, more)


def _default(field: FieldInfo) -> object:
    found = "" if field.is_required() else field.get_default(call_default_factory=True)
    if found is None:
        return ""
    return list(found) if isinstance(found, tuple) else found if isinstance(found, bool | int | float) else str(found)


def _off(line: str) -> str:
    return line if line.startswith("#") or not line else f"# {line}"


def _comment(text: str) -> Iterator[str]:
    said = " ".join(text.replace("``", '"').split())
    if said:
        yield textwrap.fill(said, _WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)


def _toml(value: object) -> str:
    """A value as TOML writes it, on one line."""
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return tomli_w.dumps({"key": value}).removeprefix("key = ").rstrip("\n")
