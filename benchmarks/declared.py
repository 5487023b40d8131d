"""Tables that are declared in a TOML file next to the module that measures them: what is measured is data.

A file has a TOML table for each table: fields of ``harness.Table``, with ``rows``, ``grids`` and ``words`` as lists.
``[all]`` has what its tables share. ``[settings]`` has groups of settings, which a table and a row name in ``use``.
``methods`` are names, or their names by those that the table gives them. A row with ``across`` is one for each
combination of these values: settings, or in ``use`` a group of them, which its name has as ``{}``.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any

from benchmarks.harness import Column, Grid, Method, Row, Settings, Table, Words, by_method


def tables(
    module: str,
    methods: Mapping[str, Method],
    groups: Mapping[str, Settings] = MappingProxyType({}),
    loaders: Mapping[str, Any] = MappingProxyType({}),
    **more: Any,
) -> dict[str, Table]:
    """The tables declared next to the file ``module``, by name; ``groups`` of settings are known besides its own.

    ``more``: fields of all of them that no file can hold.
    """
    text = tomllib.loads(Path(module).with_suffix(".toml").read_text("utf-8"))
    shared, groups = text.pop("all", {}), {**groups, **text.pop("settings", {})}
    shared |= {"loaders": {**loaders}, **more}
    return {name: _table(_joined(shared, own), methods, groups) for name, own in text.items()}


def _joined(shared: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """What a table says replaces what all say, setting by setting."""
    return {**shared, **own} | {
        key: {**value, **own[key]} for key, value in shared.items() if isinstance(value, dict) and key in own
    }


def _table(given: dict[str, Any], methods: Mapping[str, Method], groups: Mapping[str, Settings]) -> Table:
    def settings(part: dict[str, Any]) -> Settings:
        used = [groups[name] for name in part.pop("use", ())]
        return {key: value for group in (*used, part.pop("settings", {})) for key, value in group.items()}

    rows = [Row(settings=settings(row), **row) for declared in given.pop("rows") for row in _across(declared)]
    named = given.pop("methods", [name for name in methods if any(name in row.methods for row in rows)])
    names = named if isinstance(named, dict) else {name: name for name in named}
    return Table(
        rows=rows,
        methods={name: methods[method] for name, method in names.items()},
        grids=[_grid(grid, [*names]) for grid in given.pop("grids")],
        words=[Words(each["says"], tuple(each["more"]), tuple(each["less"])) for each in given.pop("words", ())],
        settings=settings(given),
        **given,
    )


def _across(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    across = row.get("across", {})
    for values in product(*across.values()):
        chosen = dict(zip(across, values, strict=True))
        own = {key: value for key, value in row.items() if key != "across"} | {"name": row["name"].format(**chosen)}
        own["use"] = [*row.get("use", ()), *([chosen.pop("use")] if "use" in chosen else ())]
        yield {**own, "settings": {**row.get("settings", {}), **chosen}}


def _grid(given: Mapping[str, Any], methods: Sequence[str]) -> Grid:
    """With ``columns``, each title's key or its key and form, or with a column of ``measure`` for each method."""
    if "columns" in given:
        columns = [Column(title, *([key] if isinstance(key, str) else key)) for title, key in given["columns"].items()]
    else:
        columns = by_method(given.get("methods", methods), given.get("measure", "accuracy"), given.get("form", ""))
    return Grid(given.get("head", ""), columns, given.get("each", ()))
