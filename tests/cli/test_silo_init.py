"""A silo's folder: whole or not at all, for its owner alone, and nothing is overwritten."""

import re
import tomllib
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.cli.demo_files import LABEL
from fedct_flwr.config import LearnerSettings, Policy, PrivacySettings, SiloConfig, TransferSettings
from fedct_flwr.config.records import RecordsSettings
from fedct_flwr.config.settings import kebab
from fedct_flwr.config.silo import Connection, DataSettings
from fedct_flwr.config.tables import SiloTables, TableForm
from fedct_flwr.datasets.study_folder import read_study
from fedct_flwr.hospital.keys import load_egress_key, load_public_key
from fedct_flwr.types import ConfigError, DataError
from tests.cli.runner import files_below
from tests.cli.silos import Authority, Fedct, Kit, make_kit
from tests.hospitals import write_silo_folder


def mode(path: Path) -> str:
    return oct(path.stat().st_mode & 0o777)


def test_the_settings_are_what_was_asked_for_and_defaults_beside(kit: Kit) -> None:
    config = kit.config
    assert (config.silo, config.connection.superlink) == ("cleveland", "localhost:1")
    assert config.data == DataSettings(file=kit.source / "data.csv", label=LABEL)
    assert config.learner == LearnerSettings(name="auto").model_copy(update={"pseudo_weight": "auto"})
    assert config.policy == Policy()
    assert config.privacy == PrivacySettings()


def test_every_key_is_in_the_template_and_explained(kit: Kit) -> None:
    text = kit.file.read_text("utf-8")
    tables = {"": SiloConfig, "data": DataSettings, "learner": LearnerSettings, "policy": Policy}
    more = {
        "privacy": PrivacySettings,
        "transfer": TransferSettings,
        "records": RecordsSettings,
        "connection": Connection,
    }
    for name, model in {**tables, **more}.items():
        part = re.split(r"^(?:# )?\[(?=\w+\]$)", text, flags=re.MULTILINE)
        (inside,) = part[:1] if not name else [one for one in part if one.startswith(f"{name}]")]
        keys = [kebab(field) for field in model.model_fields]
        keys = [key for key in keys if key not in (*tables, *more, "mapping", "tables", "images", "params")]
        for key in keys:
            assert re.search(rf"^(# )?{key} = ", inside, re.MULTILINE), key
    assert "[data.mapping]" in text
    assert "# [data.images]\n# group-pattern = " in text
    assert "[learner.params]" in text
    form = text.partition("# [data.tables]\n")[2].partition("\n\n")[0]
    assert SiloTables.read(tomllib.loads(form.replace("# ", "")), "the template").given == [
        kebab(field) for field in TableForm.model_fields
    ]
    words = " ".join(text.replace("#", " ").split())
    assert "totals over all that ever left for a study and its public set, whatever was approved in between" in words
    assert "by plain HTTP and shows the secret: keep both on one machine" in words
    assert max(map(len, text.splitlines())) <= 120


def test_keys_and_settings_are_for_their_owner_alone(kit: Kit) -> None:
    for path in ("silo.toml", "keys/egress.key", "connection/node.key", "connection/secret"):
        assert mode(kit.folder / path) == "0o600", path
    for folder in ("", "keys", "connection", "state"):
        assert mode(kit.folder / folder) == "0o700", folder


def test_the_keys_are_a_pair_and_of_the_kind_that_is_needed(kit: Kit) -> None:
    own = load_egress_key(kit.folder / "keys" / "egress.key").public_key()
    assert own == load_public_key(kit.folder / "keys" / "egress.pub")
    node = load_ssh_private_key((kit.folder / "connection" / "node.key").read_bytes(), None)
    public = load_ssh_public_key((kit.folder / "connection" / "node.key.pub").read_bytes())
    assert isinstance(node, ec.EllipticCurvePrivateKey)
    assert isinstance(node.curve, ec.SECP384R1)
    assert node.public_key() == public


def test_every_silo_has_a_secret_of_its_own(fedct: Fedct, tmp_path: Path) -> None:
    secrets = set()
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        secrets.add((make_kit(fedct, tmp_path / name).folder / "connection" / "secret").read_bytes())
    assert all(re.fullmatch(rb"[0-9a-f]{64}", secret) for secret in secrets)
    assert len(secrets) == 2


def test_the_study_is_copied_as_it_is(kit: Kit) -> None:
    assert kit.study.digest == read_study(kit.source / "study").digest


def test_it_says_what_to_send_and_what_comes_next(fedct: Fedct, tmp_path: Path, wording: SnapshotAssertion) -> None:
    source = write_silo_folder(tmp_path / "source").parent
    outcome = fedct(
        "silo", "init", "mine", "--silo", "x", "--study", source / "study", "--data", "data.csv", "--label", LABEL
    )  # fmt: skip
    assert outcome.code == 0
    assert outcome.out == wording
    assert "Ask the coordinator for its address" in outcome.out
    assert "Ask the coordinator for ca.crt" in outcome.out


def test_the_certificate_is_copied(fedct: Fedct, tmp_path: Path) -> None:
    Authority.make().write(tmp_path / "their-ca.crt")
    kit = make_kit(fedct, tmp_path, ca=str(tmp_path / "their-ca.crt"))
    assert kit.config.connection.ca_certificate.read_bytes() == (tmp_path / "their-ca.crt").read_bytes()


def test_records_in_the_silos_folder_are_named_from_there(fedct: Fedct, tmp_path: Path) -> None:
    kit = make_kit(fedct, tmp_path, data=str(tmp_path / "silo" / "data.csv"))
    assert tomllib.loads(kit.file.read_text("utf-8"))["data"]["file"] == "data.csv"


def test_a_name_with_quotes_and_backslashes_is_written_as_it_is(fedct: Fedct, tmp_path: Path) -> None:
    kit = make_kit(fedct, tmp_path, label='a "b" \\ {c}', data=str(tmp_path / 'x"\\y.csv'))
    assert (kit.config.data.label, kit.config.data.file) == ('a "b" \\ {c}', tmp_path / 'x"\\y.csv')


def test_the_hospitals_own_learner_is_trusted_and_no_other(fedct: Fedct, tmp_path: Path) -> None:
    kit = make_kit(fedct, tmp_path, learner="our_models.forest.make")
    assert kit.config.learner.packages == ("our_models",)


@pytest.mark.parametrize(
    "options",
    [
        {"silo": "no name"},
        {"study": "/nowhere"},
        {"label": ""},
        {"superlink": "https://x"},
        {"ca": "/nowhere"},
        {"learner": "randm-forest"},
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_mistake_is_one_sentence_and_leaves_nothing(
    fedct: Fedct, tmp_path: Path, options: dict[str, str], wording: SnapshotAssertion
) -> None:
    source = write_silo_folder(tmp_path / "source").parent
    given = {"silo": "x", "study": str(source / "study"), "data": "data.csv", "label": LABEL, **options}
    before = files_below(tmp_path)
    outcome = fedct("silo", "init", tmp_path / "silo", *(part for key in given for part in (f"--{key}", given[key])))
    assert outcome.code == ConfigError.exit_code
    assert outcome.sentence == wording
    assert ".silo." not in outcome.sentence
    assert files_below(tmp_path) == before


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "it is empty"),
        (b"%PDF-1.7", "it is a PDF: export the table as CSV"),
        (b"age,crp\n1,2\x00\x00", "it holds bytes that are no text"),
        (None, "it is a folder"),
    ],
    ids=["empty", "pdf", "zeros", "folder"],
)
def test_records_that_no_settings_make_readable_are_refused_before_a_folder_is_made(
    fedct: Fedct, tmp_path: Path, content: bytes | None, said: str
) -> None:
    source = write_silo_folder(tmp_path / "source").parent
    data = tmp_path / "records.csv"
    data.mkdir() if content is None else data.write_bytes(content)
    before = files_below(tmp_path)
    outcome = fedct(
        "silo", "init", tmp_path / "silo", "--silo", "x", "--study", source / "study", "--data", data, "--label", LABEL
    )
    assert (outcome.code, files_below(tmp_path)) == (DataError.exit_code, before)
    assert said in outcome.sentence


def test_records_that_need_settings_get_the_folder_in_which_these_are_written(fedct: Fedct, tmp_path: Path) -> None:
    source = write_silo_folder(tmp_path / "source").parent
    data = tmp_path / "records.csv"
    data.write_bytes("age;größe\n1;2\n".encode("cp1252"))
    outcome = fedct(
        "silo", "init", tmp_path / "silo", "--silo", "x", "--study", source / "study", "--data", data, "--label", LABEL
    )
    assert outcome.code == 0
    assert "The records cannot be read as the study's: fedct silo check says why" in outcome.out


def test_nothing_is_overwritten(fedct: Fedct, kit: Kit) -> None:
    before = {
        name: (kit.folder / name).read_bytes() for name in files_below(kit.folder) if (kit.folder / name).is_file()
    }
    outcome = fedct(
        "silo", "init", kit.folder, "--silo", "x", "--study", kit.folder / "study", "--data", "d", "--label", "l"
    )
    assert (outcome.code, "nothing is overwritten" in outcome.sentence) == (ConfigError.exit_code, True)
    assert {name: (kit.folder / name).read_bytes() for name in before} == before


def test_what_fails_half_way_leaves_nothing(fedct: Fedct, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fedct_flwr.cli.silo.init.create_node_key", full)
    with pytest.raises(AssertionError, match="No space left"):
        make_kit(fedct, tmp_path)
    assert files_below(tmp_path) == files_below(tmp_path / "source") or not (tmp_path / "silo").exists()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
