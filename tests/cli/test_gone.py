"""A command or a setting that is gone ends in one sentence with what serves now."""

from collections.abc import Mapping
from importlib import import_module

import pytest

from fedct_flwr.cli import lazy as commands
from fedct_flwr.config import gone as settings
from fedct_flwr.config.run import RunConfig
from fedct_flwr.config.settings import Settings
from fedct_flwr.types import ConfigError
from tests.cli.silos import Fedct


@pytest.mark.parametrize("command", commands.GONE)
def test_a_command_that_is_gone_says_what_serves_now(command: str, fedct: Fedct) -> None:
    ended = fedct(*command.split(), "anything", "--whatever")
    assert (ended.code, ended.sentence) == (2, f"'fedct {command}' is gone: {commands.GONE[command]}")
    *group, name = command.split()
    assert name.startswith("--") or name not in import_module(".".join(("fedct_flwr.cli", *(group or ["main"])))).HELPS


def _raw(name: str) -> Mapping[str, object]:
    key, _, value = name.partition(" = ")
    *tables, last = key.split(".")
    raw: dict[str, object] = {last: value or "x"}
    for table in reversed(tables):
        raw = {table: raw}
    return raw


@pytest.mark.parametrize("name", settings.GONE)
@pytest.mark.parametrize("kind", [RunConfig, Settings])
def test_a_setting_that_is_gone_says_what_serves_now(kind: type[Settings], name: str) -> None:
    with pytest.raises(ConfigError) as error:
        kind.read(_raw(name), "a file")
    assert str(error.value) == f"{name!r} is gone: {settings.GONE[name]} (in a file)"


@pytest.mark.parametrize("name", settings.ELSEWHERE)
def test_a_name_that_other_libraries_have_leads_to_the_one_here(name: str) -> None:
    with pytest.raises(ConfigError) as error:
        RunConfig.read({name: 3}, "a file")
    assert str(error.value) == f"{name!r} has another name here: {settings.ELSEWHERE[name]} (in a file)"
