"""Two commands to join: a complete, signed invitation, and a silo's folder made from it."""

import stat
import zipfile
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509

from fedct_flwr.cli import certificates
from fedct_flwr.cli.certificates import RENEW_BEFORE, is_good_for, load_certificate
from fedct_flwr.cli.coordinator.folder import CoordinatorFolder
from fedct_flwr.cli.coordinator.invite import files_of
from fedct_flwr.cli.coordinator.register import node_key
from fedct_flwr.cli.demo import LABEL
from fedct_flwr.cli.invitation import fingerprint_of
from fedct_flwr.config.learner import LearnerSettings
from fedct_flwr.config.privacy import PrivacySettings
from fedct_flwr.config.silo import DataSettings, SiloConfig
from fedct_flwr.datasets.study_folder import read_study
from fedct_flwr.hospital.keys import load_egress_key
from fedct_flwr.types import ConfigError
from tests.cli.runner import Outcome, files_below
from tests.cli.silos import Fedct, Kit, make_kit
from tests.hospitals import write_silo_folder


@pytest.fixture
def folder(fedct: Fedct, tmp_path: Path) -> CoordinatorFolder:
    """A coordinator's folder with a study."""
    source = write_silo_folder(tmp_path / "source").parent
    path = tmp_path / "coordinator"
    made = fedct("coordinator", "init", path, "--host", "fl.example.org", "--study", source / "study")
    assert made.code == 0, made.err
    return CoordinatorFolder.open(path)


def invite(fedct: Fedct, folder: CoordinatorFolder, silo: str = "zurich", *options: str) -> Path:
    done = fedct("coordinator", "invite", folder.path, silo, *options)
    assert done.code == 0, done.err
    return folder.invitations / f"{silo}.zip"


def fingerprint(folder: CoordinatorFolder) -> str:
    return fingerprint_of(load_egress_key(folder.signing_key).public_key())


def join(fedct: Fedct, folder: CoordinatorFolder, tmp_path: Path, path: Path, *options: str) -> Outcome:
    told = ("--fingerprint", fingerprint(folder)) if "--fingerprint" not in options else ()
    data = tmp_path / "source" / "data.csv"
    return fedct("silo", "join", path, tmp_path / "silo", "--data", data, "--label", LABEL, *told, *options)


def joined(fedct: Fedct, folder: CoordinatorFolder, tmp_path: Path, *options: str) -> Path:
    done = join(fedct, folder, tmp_path, invite(fedct, folder), *options)
    assert done.code == 0, done.err
    return tmp_path / "silo"


# --- at the coordinator


def test_an_invitation_is_complete_and_for_its_owner_alone(fedct: Fedct, folder: CoordinatorFolder) -> None:
    path = invite(fedct, folder)
    with zipfile.ZipFile(path) as archive:
        assert set(archive.namelist()) == {
            "ca.crt", "client.crt", "client.key", "study/study.toml", "study/public.csv", "study/test.csv",
        }  # fmt: skip
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.invitations.stat().st_mode) == 0o700
    assert list(folder.invitations.iterdir()) == [path]


def test_a_silos_certificate_is_no_servers_and_signs_nothing(fedct: Fedct, folder: CoordinatorFolder) -> None:
    invite(fedct, folder)
    made = load_certificate(folder.kits / "zurich" / "client.crt")
    use = made.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(use) == [x509.oid.ExtendedKeyUsageOID.CLIENT_AUTH]
    assert not made.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    with pytest.raises(ValueError, match="issuer"):
        made.verify_directly_issued_by(load_certificate(folder.ca))


def test_invited_again_a_silo_keeps_its_certificate_until_that_is_about_to_expire(
    fedct: Fedct, folder: CoordinatorFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = folder.kits / "zurich" / "client.crt"
    monkeypatch.setattr(certificates, "LIFETIME", RENEW_BEFORE - timedelta(days=1))
    invite(fedct, folder)
    monkeypatch.undo()
    late = certificate.read_bytes()
    again = fedct("coordinator", "init", folder.path, "--host", "fl.example.org")
    assert f"fedct coordinator invite {folder.path} zurich --again" in again.out
    new = certificate.read_bytes()
    assert new != late
    invite(fedct, folder, "zurich", "--again")
    assert certificate.read_bytes() == new


# --- at the silo


def test_a_silos_folder_is_made_from_its_invitation(fedct: Fedct, folder: CoordinatorFolder, tmp_path: Path) -> None:
    silo = joined(fedct, folder, tmp_path)
    config = SiloConfig.read_toml(silo / "silo.toml")
    assert (config.silo, config.connection.superlink) == ("zurich", "fl.example.org:8443")
    assert read_study(config.study).digest == read_study(folder.study).digest
    # As much as 100 rounds need, in labels and in the longest form of a reply.
    assert (config.policy.max_queries, config.policy.max_bytes) == (22_800, 100 * (228 * 2 * 8 + 10_000))
    for name, path in files_of(folder, "zurich").items():
        assert (config.connection.ca_certificate.parent / name).read_bytes() == path.read_bytes()
    assert stat.S_IMODE(config.connection.client_key.stat().st_mode) == 0o600
    assert not (silo / "compose.yaml").exists()


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 1)])
def test_without_a_fingerprint_it_asks(
    fedct: Fedct, folder: CoordinatorFolder, tmp_path: Path, types: object, answer: str, code: int
) -> None:
    types(answer)  # type: ignore[operator]
    path = invite(fedct, folder)
    data = tmp_path / "source" / "data.csv"
    done = fedct("silo", "join", path, tmp_path / "silo", "--data", data, "--label", LABEL)
    assert done.code == code
    assert fingerprint(folder) in done.out
    assert (tmp_path / "silo").exists() is (code == 0)


# --- new certificates


def test_a_folder_that_has_joined_takes_new_certificates_of_its_coordinator_alone(
    fedct: Fedct, folder: CoordinatorFolder, tmp_path: Path
) -> None:
    silo = joined(fedct, folder, tmp_path)
    kept, known = (silo / "silo.toml").read_bytes(), node_key(silo / "connection" / "node.key.pub")
    for path in folder.ca.parent.glob("c*"):
        path.unlink()
    made = fedct("coordinator", "init", folder.path)
    assert f"fedct coordinator invite {folder.path} zurich --again" in made.out
    for path in (silo / "connection").glob("node.key*"):
        path.unlink()
    again = invite(fedct, folder, "zurich", "--again")
    done = fedct("silo", "join", again, silo)
    assert (done.code, "node.key.pub" in done.out) == (0, True)
    assert (silo / "connection" / "ca.crt").read_bytes() == folder.ca.read_bytes()
    assert is_good_for(folder.server_certificate, ["fl.example.org"], folder.ca)
    issued = load_certificate(silo / "connection" / "client.crt")
    issued.verify_directly_issued_by(load_certificate(folder.clients_ca))
    assert (silo / "silo.toml").read_bytes() == kept
    assert node_key(silo / "connection" / "node.key.pub") != known
    assert "has another study" not in done.out + done.err
    public = silo / "study" / "public.csv"
    public.write_text("".join(public.read_text().splitlines(keepends=True)[:-1]))
    done = fedct("silo", "join", again, silo)
    assert (done.code, "has another study than" in done.out + done.err) == (0, True)
    assert "has joined already" in fedct("silo", "join", again, silo, "--label", LABEL).sentence
    for path in folder.signing_key.parent.glob("invitations.*"):
        path.unlink()
    before = (silo / "connection" / "client.crt").read_bytes()
    done = fedct("silo", "join", invite(fedct, folder, "zurich", "--again"), silo)
    assert done.code == ConfigError.exit_code
    assert "was signed by another key" in done.sentence
    assert (silo / "connection" / "client.crt").read_bytes() == before


# --- a folder without an invitation: whole or not at all, for its owner alone, and nothing is overwritten


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
