"""What a silo is sent: complete, its own, renewed in time; and a silo's folder made from it."""

import ssl
import stat
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from fedct_flwr.cli import certificates
from fedct_flwr.cli.certificates import RENEW_BEFORE, lasts, load_certificate
from fedct_flwr.cli.coordinator.folder import CoordinatorFolder
from fedct_flwr.cli.demo_files import LABEL
from fedct_flwr.config import SiloConfig
from fedct_flwr.datasets.study_folder import read_study
from fedct_flwr.hospital.approval import terms_digest
from fedct_flwr.hospital.keys import create_node_key
from fedct_flwr.types import ConfigError
from tests.cli.silos import Fedct
from tests.hospitals import write_silo_folder

FILES = {"kit.toml", "ca.crt", "client.crt", "client.key", "study"}


@pytest.fixture
def folder(fedct: Fedct, tmp_path: Path) -> CoordinatorFolder:
    """A coordinator's folder with a study."""
    source = write_silo_folder(tmp_path / "source").parent
    path = tmp_path / "coordinator"
    made = fedct("coordinator", "init", path, "--host", "fl.example.org", "--study", source / "study")
    assert made.code == 0, made.err
    return CoordinatorFolder.open(path)


def subject(certificate: Path) -> str:
    (name,) = load_certificate(certificate).subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(name.value)


def test_each_silo_gets_all_it_needs_and_a_certificate_of_its_own(fedct: Fedct, folder: CoordinatorFolder) -> None:
    done = fedct("coordinator", "kit", folder.path, "cleveland", "zurich")
    assert f"send {folder.kits / 'zurich'} to zurich, with a new certificate" in done.out
    for silo in ("cleveland", "zurich"):
        kit = folder.kits / silo
        assert {path.name for path in kit.iterdir()} == FILES
        assert stat.S_IMODE(kit.stat().st_mode) == 0o700
        assert stat.S_IMODE((kit / "client.key").stat().st_mode) == 0o600
        assert subject(kit / "client.crt") == silo
        assert lasts(kit / "client.crt", folder.clients_ca)
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(kit / "client.crt", kit / "client.key")
    assert (folder.kits / "cleveland/client.key").read_bytes() != (folder.kits / "zurich/client.key").read_bytes()


def test_a_silos_certificate_is_no_servers_and_signs_nothing(fedct: Fedct, folder: CoordinatorFolder) -> None:
    fedct("coordinator", "kit", folder.path, "zurich")
    made = load_certificate(folder.kits / "zurich" / "client.crt")
    use = made.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(use) == [x509.oid.ExtendedKeyUsageOID.CLIENT_AUTH]
    assert not made.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    with pytest.raises(ValueError, match="issuer"):
        made.verify_directly_issued_by(load_certificate(folder.ca))


def test_a_kit_made_again_keeps_its_certificate_until_that_is_about_to_expire(
    fedct: Fedct, folder: CoordinatorFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = folder.kits / "zurich" / "client.crt"
    monkeypatch.setattr(certificates, "CLIENT_LIFETIME", RENEW_BEFORE - timedelta(days=1))
    fedct("coordinator", "kit", folder.path, "zurich")
    monkeypatch.undo()
    late = certificate.read_bytes()
    again = fedct("coordinator", "init", folder.path, "--host", "fl.example.org")
    assert f"the kit of zurich has a new certificate: send it {folder.kits / 'zurich'}" in again.out
    new = certificate.read_bytes()
    assert new != late
    assert "with the certificate that it had" in fedct("coordinator", "kit", folder.path, "zurich").out
    assert certificate.read_bytes() == new


def test_a_folder_of_before_gets_what_it_lacks(fedct: Fedct, folder: CoordinatorFolder, tmp_path: Path) -> None:
    for path in (folder.clients_ca, folder.clients_key, folder.settings):
        path.unlink()
    create_node_key(tmp_path / "node.key")
    (tmp_path / "node.key.pub").rename(folder.silos / "zurich.pub")
    # The authority of the server is where it should be: elsewhere.
    folder.ca_key.unlink()
    done = fedct("coordinator", "init", folder.path, "--host", "fl.example.org", "--gateway", "fl.example.org:443")
    assert done.code == 0, done.err
    assert "the kit of zurich has a new certificate" in done.out
    assert lasts(folder.kits / "zurich" / "client.crt", folder.clients_ca)
    assert folder.config().gateway == "fl.example.org:443"


@pytest.mark.parametrize("silo", ["../x", "a b", "", "-x"])
def test_a_kit_for_what_is_no_silo_is_refused(fedct: Fedct, folder: CoordinatorFolder, silo: str) -> None:
    done = fedct("coordinator", "kit", folder.path, "--", silo)
    assert done.code == ConfigError.exit_code
    assert "is no silo's name" in done.sentence
    assert not folder.kits.exists()


# --- at the silo


def make(fedct: Fedct, folder: CoordinatorFolder, tmp_path: Path) -> Path:
    fedct("coordinator", "kit", folder.path, "zurich")
    records = tmp_path / "source" / "data.csv"
    kit = folder.kits / "zurich"
    done = fedct("silo", "init", tmp_path / "silo", "--kit", kit, "--data", records, "--label", LABEL)
    assert done.code == 0, done.err
    return tmp_path / "silo"


def test_a_silos_folder_is_made_from_its_kit(fedct: Fedct, folder: CoordinatorFolder, tmp_path: Path) -> None:
    config = SiloConfig.read_toml(make(fedct, folder, tmp_path) / "silo.toml")
    assert (config.silo, config.connection.superlink) == ("zurich", "fl.example.org:8443")
    assert read_study(config.study).digest == read_study(folder.study).digest
    for path, name in (
        (config.connection.ca_certificate, "ca.crt"),
        (config.connection.client_certificate, "client.crt"),
        (config.connection.client_key, "client.key"),
    ):
        assert path.read_bytes() == (folder.kits / "zurich" / name).read_bytes()
    assert stat.S_IMODE(config.connection.client_key.stat().st_mode) == 0o600


def test_the_approval_knows_nothing_of_the_certificate(fedct: Fedct, folder: CoordinatorFolder, tmp_path: Path) -> None:
    file = make(fedct, folder, tmp_path) / "silo.toml"
    config = SiloConfig.read_toml(file)
    before = terms_digest(config, read_study(config.study))
    config.connection.client_certificate.unlink()
    lines = [line for line in file.read_text("utf-8").splitlines() if not line.startswith("client-")]
    file.write_text("\n".join(lines), "utf-8")
    assert terms_digest(SiloConfig.read_toml(file), read_study(config.study)) == before


@pytest.mark.parametrize("name", ["client.crt", "client.key", "ca.crt"])
def test_half_a_kit_makes_no_folder(fedct: Fedct, folder: CoordinatorFolder, tmp_path: Path, name: str) -> None:
    fedct("coordinator", "kit", folder.path, "zurich")
    (folder.kits / "zurich" / name).unlink()
    done = fedct(
        "silo", "init", tmp_path / "silo", "--kit", folder.kits / "zurich", "--data", "x.csv", "--label", LABEL
    )
    assert done.code == ConfigError.exit_code
    assert done.sentence.startswith(f"there is no file {folder.kits / 'zurich' / name}: ask the coordinator")
    assert not (tmp_path / "silo").exists()


def test_a_silo_without_kit_and_study_is_told_which_option_is_missing(fedct: Fedct, tmp_path: Path) -> None:
    done = fedct("silo", "init", tmp_path / "silo", "--data", "x.csv", "--label", LABEL)
    assert done.sentence.startswith("--kit is missing: name the folder from the coordinator")
