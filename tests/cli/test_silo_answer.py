"""``fedct silo answer``: one carried question, by the command."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fedct_flwr.hospital.offline_transport import Question, seal
from fedct_flwr.types import ConfigError, DataError
from fedct_flwr.wire.codec import encode_instruction
from tests.cli.silos import Fedct
from tests.hospital.agents import Silo, silos_in

REFUSED = 1


@pytest.fixture
def silo(tmp_path: Path) -> Iterator[Silo]:
    with silos_in(tmp_path) as make:
        yield make()


def ask(silo: Silo, path: Path, payload: bytes) -> Path:
    seal(path, Question(1, 7, "train", "0" * 64, {}, payload), silo.config.connection.secret)
    return path


@pytest.mark.filterwarnings("ignore")
def test_a_question_is_answered_once_and_a_bad_one_is_refused(fedct: Fedct, silo: Silo, tmp_path: Path) -> None:
    question = ask(silo, tmp_path / "question-1.fedct", encode_instruction(silo.instruction(), silo.terms))
    assert fedct("silo", "answer", question, "--folder", silo.folder).code == 0
    assert (tmp_path / "answer-1.fedct").exists()
    assert fedct("silo", "answer", question, "--folder", silo.folder).code == ConfigError.exit_code
    odd = ask(silo, tmp_path / "question-2.fedct", b"none")
    assert fedct("silo", "answer", odd, "--folder", silo.folder).code == REFUSED
    assert (tmp_path / "answer-2.fedct").exists()
    assert fedct("silo", "answer", silo.file, "--folder", silo.folder).code == DataError.exit_code
