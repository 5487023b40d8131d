"""``fedct demo``: folders that are complete, that hold what a simulation has, and that are made but once."""

import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from fedct_flwr.cli.certificates import is_good_for
from fedct_flwr.cli.coordinator.folder import CoordinatorFolder
from fedct_flwr.cli.main import app
from fedct_flwr.config.silo import SiloConfig
from fedct_flwr.datasets.study_folder import read_study
from fedct_flwr.hospital.approval import current, terms_digest
from fedct_flwr.hospital.keys import load_public_key
from fedct_flwr.hospital.log_entry import read_entries, verify_log
from tests.hospitals import HOSPITALS


def demo(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["demo", *map(str, arguments)], catch_exceptions=True)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A demonstration as the containers have it."""
    folder = tmp_path_factory.mktemp("demo") / "made"
    hosts = ["--host", "superlink", "--host", "gateway"]
    done = demo(folder, *hosts, "--superlink", "gateway:8443", "--address", "superlink:8000", "--supernode",
                "supernode-{silo}:{port}")  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "approved automatically" in done.output
    return folder


def test_there_is_a_coordinator_and_the_four_hospitals(made: Path) -> None:
    assert sorted(path.name for path in (made / "silos").iterdir()) == sorted(HOSPITALS)
    coordinator = CoordinatorFolder.open(made / "coordinator")
    assert set(coordinator.keys()) == set(HOSPITALS)
    assert coordinator.address() == "superlink:8000"
    assert is_good_for(coordinator.server_certificate, ["superlink", "gateway"], coordinator.ca)


@pytest.mark.parametrize("silo", HOSPITALS)
def test_a_silo_lets_scores_out_and_has_approved(made: Path, silo: str) -> None:
    config = SiloConfig.read_toml(made / "silos" / silo / "silo.toml")
    assert config.policy.metrics
    assert verify_log(config.state, load_public_key(config.egress_key.with_suffix(".pub")), silo).intact
    assert current(read_entries(config.state)) == terms_digest(config, read_study(config.study))


def test_what_is_secret_is_its_owners_alone_and_no_two_silos_share_it(made: Path) -> None:
    for name in ("keys/egress.key", "connection/node.key", "connection/client.key", "connection/secret"):
        assert len({(made / "silos" / silo / name).read_bytes() for silo in HOSPITALS}) == 4
    secrets = [
        path
        for path in made.rglob("*")
        if path.name in ("secret", "silo.toml") or (path.suffix == ".key" and path.is_file())
    ]
    # Of the coordinator 4, of each silo its 5, and one in each kit.
    assert len(secrets) == 4 + 4 * (5 + 1)
    assert {stat.S_IMODE(path.stat().st_mode) for path in secrets} == {0o600}
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
