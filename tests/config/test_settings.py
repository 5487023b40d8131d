"""What all settings have in common: files, tables within tables, paths, and one sentence for every mistake."""

from pathlib import Path
from typing import Any

from pydantic import Field
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.config.settings import OptionalRelativePath, RelativePath, Settings
from fedct_flwr.types import ConfigError
from tests.sentences import sentence


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
    text = sentence(ConfigError, Outer.read_toml, path)
    assert str(path) in text
    return text


def test_relative_paths_start_at_the_files_folder_and_absolute_ones_stay(tmp_path: Path) -> None:
    path = write(tmp_path, 'name = "a"\nfile = "data/x.csv"\nstate = "/var/state"\n[inner-table]\nfolder = "there"\n')
    settings = Outer.read_toml(path)
    assert settings.file == tmp_path / "data" / "x.csv"
    assert settings.state == Path("/var/state")
    assert settings.inner_table.folder == tmp_path / "there"


def test_a_missing_file_is_named(tmp_path: Path, wording: SnapshotAssertion) -> None:
    assert message(tmp_path / "settings.toml") == wording


def test_an_unknown_key_in_a_table_names_the_table_and_the_nearest_key_there(tmp_path: Path) -> None:
    path = write(tmp_path, 'name = "a"\n[inner-table]\nnum-round = 3\n')
    assert message(path) == f"unknown key 'num-round' in [inner-table] in {path}: did you mean 'num-rounds'?"


def test_a_value_out_of_range_is_named_with_its_table(tmp_path: Path) -> None:
    path = write(tmp_path, 'name = "a"\n[inner-table]\nnum-rounds = 0\n')
    assert message(path).startswith(f"inner-table.num-rounds = 0 in {path}: ")
