"""What all settings have in common: files, tables within tables, paths, and one sentence for every mistake."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import Field
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.config.settings import OptionalRelativePath, RelativePath, Settings
from fedct_flwr.types import ConfigError


class Inner(Settings):
    num_rounds: int = Field(default=1, ge=1)
    folder: RelativePath = Path("inner")


class Outer(Settings):
    name: str
    file: OptionalRelativePath = None
    state: RelativePath = Path("state")
    inner_table: Inner = Inner()
    free: dict[str, Any] = Field(default_factory=dict)


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "settings.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def message(path: Path) -> str:
    """What is said of a file: one line that names it."""
    with pytest.raises(ConfigError) as caught:
        Outer.read_toml(path)
    text = str(caught.value)
    assert "\n" not in text
    assert str(path) in text
    return text


def test_relative_paths_start_at_the_files_folder_and_absolute_ones_stay(tmp_path: Path) -> None:
    path = write(tmp_path, 'name = "a"\nfile = "data/x.csv"\nstate = "/var/state"\n[inner-table]\nfolder = "there"\n')
    settings = Outer.read_toml(path)
    assert settings.file == tmp_path / "data" / "x.csv"
    assert settings.state == Path("/var/state")
    assert settings.inner_table.folder == tmp_path / "there"


def test_paths_that_are_not_given_start_at_the_files_folder_too(tmp_path: Path) -> None:
    settings = Outer.read_toml(write(tmp_path, 'name = "a"\n[inner-table]\n'))
    assert (settings.state, settings.inner_table.folder) == (tmp_path / "state", tmp_path / "inner")


def test_a_path_does_not_depend_on_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, 'name = "a"\n')
    monkeypatch.chdir(tmp_path)
    settings = Outer.read_toml(Path("settings.toml"))
    assert settings.state == tmp_path / "state"


@pytest.mark.parametrize("text", ["", 'file = ""\n'])
def test_an_empty_path_is_none_and_not_the_files_folder(tmp_path: Path, text: str) -> None:
    assert Outer.read_toml(write(tmp_path, f'name = "a"\n{text}')).file is None


def test_a_missing_file_is_named(tmp_path: Path, wording: SnapshotAssertion) -> None:
    assert message(tmp_path / "settings.toml") == wording


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    assert message(tmp_path).startswith(f"cannot read {tmp_path}: ")


@pytest.mark.parametrize("text", ["name = ", "name", 'name = "a"\nname = "b"\n', b"name = '\xff'"])
def test_a_file_that_is_no_toml_is_named(tmp_path: Path, text: str | bytes) -> None:
    path = write(tmp_path, text)
    assert message(path).startswith(f"{path} is not TOML: ")


def test_the_mark_that_editors_write_before_utf_8_is_no_content(tmp_path: Path) -> None:
    assert Outer.read_toml(write(tmp_path, '\ufeffname = "a"\n')).name == "a"


def test_an_unknown_key_names_the_nearest(tmp_path: Path) -> None:
    path = write(tmp_path, 'name = "a"\nstat = "b"\n')
    assert message(path) == f"unknown key 'stat' in {path}: did you mean 'state'?"


def test_an_unknown_key_in_a_table_names_the_table_and_the_nearest_key_there(tmp_path: Path) -> None:
    path = write(tmp_path, 'name = "a"\n[inner-table]\nnum-round = 3\n')
    assert message(path) == f"unknown key 'num-round' in [inner-table] in {path}: did you mean 'num-rounds'?"


def test_an_unknown_table_is_an_unknown_key(tmp_path: Path) -> None:
    path = write(tmp_path, 'name = "a"\n[inner-tabel]\nnum-rounds = 3\n')
    assert message(path) == f"unknown key 'inner-tabel' in {path}: did you mean 'inner-table'?"


def test_underscores_are_a_misspelling(tmp_path: Path) -> None:
    path = write(tmp_path, 'name = "a"\n[inner-table]\nnum_rounds = 3\n')
    assert message(path).endswith("did you mean 'num-rounds'?")


def test_any_key_may_stand_where_all_keys_may(tmp_path: Path) -> None:
    assert Outer.read_toml(write(tmp_path, 'name = "a"\n[free]\nstat = 1\n')).free == {"stat": 1}


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, "")
    assert message(path) == f"'name' is missing in {path}"


def test_a_value_out_of_range_is_named_with_its_table(tmp_path: Path) -> None:
    path = write(tmp_path, 'name = "a"\n[inner-table]\nnum-rounds = 0\n')
    assert message(path).startswith(f"inner-table.num-rounds = 0 in {path}: ")


def test_a_value_where_a_table_should_be_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, 'name = "a"\ninner-table = 3\n')
    assert message(path).startswith(f"inner-table = 3 in {path}: ")


def test_a_table_where_a_value_should_be_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, "[name]\nfirst = 3\n")
    assert "name" in message(path)


def test_settings_from_a_mapping_keep_relative_paths(tmp_path: Path) -> None:
    assert Outer.read({"name": "a"}, "a test").state == Path("state")
    assert Outer.read({"name": "a"}, "a test", tmp_path).state == tmp_path / "state"
