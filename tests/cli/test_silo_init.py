"""A silo's folder: whole or not at all, for its owner alone, and nothing is overwritten."""

from pathlib import Path

import pytest

from fedct_flwr.cli.demo import LABEL
from fedct_flwr.config.learner import LearnerSettings
from fedct_flwr.config.privacy import PrivacySettings
from fedct_flwr.config.silo import DataSettings
from fedct_flwr.types import ConfigError
from tests.cli.runner import files_below
from tests.cli.silos import Fedct, Kit, make_kit
from tests.hospitals import write_silo_folder


def mode(path: Path) -> str:
    return oct(path.stat().st_mode & 0o777)


def test_the_settings_are_what_was_asked_for_and_defaults_beside(kit: Kit) -> None:
    config = kit.config
    assert (config.silo, config.connection.superlink) == ("cleveland", "localhost:1")
    assert config.data == DataSettings(file=kit.source / "data.csv", label=LABEL)
    assert config.learner == LearnerSettings(name="auto").model_copy(update={"pseudo_weight": "auto"})
    assert config.policy.given == ["max-queries", "max-bytes"]
    assert config.privacy == PrivacySettings()


def test_keys_and_settings_are_for_their_owner_alone(kit: Kit) -> None:
    for path in ("silo.toml", "keys/egress.key", "connection/node.key", "connection/secret"):
        assert mode(kit.folder / path) == "0o600", path
    for folder in ("", "keys", "connection", "state"):
        assert mode(kit.folder / folder) == "0o700", folder


def test_the_hospitals_own_learner_is_trusted_and_no_other(fedct: Fedct, tmp_path: Path) -> None:
    kit = make_kit(fedct, tmp_path, learner="our_models.forest.make")
    assert kit.config.learner.packages == ("our_models",)


@pytest.mark.parametrize(
    ("option", "value"),
    [("silo", "no name"), ("study", "/nowhere"), ("label", ""), ("superlink", "https://x"), ("ca", "/nowhere"),
     ("learner", "randm-forest")],
)  # fmt: skip
def test_a_mistake_is_one_sentence_and_leaves_nothing(fedct: Fedct, tmp_path: Path, option: str, value: str) -> None:
    source = write_silo_folder(tmp_path / "source").parent
    given = {"silo": "x", "study": str(source / "study"), "data": "data.csv", "label": LABEL, option: value}
    before = files_below(tmp_path)
    outcome = fedct("silo", "init", tmp_path / "silo", *(part for key in given for part in (f"--{key}", given[key])))
    assert outcome.code == ConfigError.exit_code
    assert outcome.sentence
    assert ".silo." not in outcome.sentence
    assert files_below(tmp_path) == before


def test_the_folder_where_the_command_runs_is_not_replaced(
    fedct: Fedct, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_silo_folder(tmp_path / "source").parent
    (tmp_path / "silo").mkdir()
    monkeypatch.chdir(tmp_path / "silo")
    outcome = fedct("silo", "init", ".", "--silo", "x", "--study", source / "study", "--data", "d", "--label", LABEL)
    assert (outcome.code, "name it from the folder above" in outcome.sentence) == (ConfigError.exit_code, True)
    assert not [*(tmp_path / "silo").iterdir()]


def test_nothing_is_overwritten(fedct: Fedct, kit: Kit) -> None:
    before = {
        name: (kit.folder / name).read_bytes() for name in files_below(kit.folder) if (kit.folder / name).is_file()
    }
    outcome = fedct(
        "silo", "init", kit.folder, "--silo", "x", "--study", kit.folder / "study", "--data", "d", "--label", "l"
    )
    assert (outcome.code, "nothing is overwritten" in outcome.sentence) == (ConfigError.exit_code, True)
    assert {name: (kit.folder / name).read_bytes() for name in before} == before
