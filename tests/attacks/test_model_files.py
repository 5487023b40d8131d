"""A model file with forged bytes: one sentence, or labels, and never the end of the command or an endless wait."""

import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn

from fedct_flwr.models.loading import LIMIT, ForeignModel
from fedct_flwr.types import DataError, FedctError
from tests.models import test_model_file
from tests.models.test_model_file import description, saved, table

MOST_LETTERS = 1000


class Deadly:
    """A model that no check knows of: to load it, or to ask it, ends the process or has no end."""

    classes_ = np.arange(3)

    def __init__(self, when: str = "", how: str = "") -> None:
        self.when, self.how = when, how

    def __setstate__(self, state: dict[str, str]) -> None:
        self.__dict__.update(state)
        if self.when == "load":
            self.act()

    def predict(self, X: Any) -> Any:
        self.act()

    def act(self) -> None:
        if self.how == "abort":
            os.abort()
        while True:
            pass


@pytest.mark.parametrize("when", ["load", "predict"])
@pytest.mark.parametrize(
    ("how", "said"), [("abort", "ended the process that read it"), ("hang", "no answer after 2 s")]
)
def test_what_no_check_knows_of_ends_a_process_of_its_own(tmp_path: Path, when: str, how: str, said: str) -> None:
    deadly = Deadly(how=how)
    deadly.when = when
    path = tmp_path / "m"
    path.write_bytes(test_model_file.pack(deadly, description("decision-tree")))

    def use() -> None:
        with ForeignModel(path, ["tests"], limit=2 if (when, how) == ("load", "hang") else LIMIT) as model:
            if how == "hang":
                model._limit = 2
            model.predict(table()[0])

    with pytest.raises(DataError, match=said) as caught:
        use()
    assert "\n" not in str(caught.value)


def test_a_file_that_was_cut_is_one_sentence_of_the_process_that_read_it(tmp_path: Path) -> None:
    content = saved(tmp_path / "m", "decision-tree")[1]
    (tmp_path / "m").write_bytes(content[: len(content) // 2])
    with pytest.raises(FedctError) as caught, ForeignModel(tmp_path / "m") as model:
        model.predict(table()[0])
    assert "\n" not in str(caught.value)


def test_what_a_file_has_libraries_warn_of_hides_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    forged = "\x1b[2J\x1b[H\nDifferential privacy is guaranteed\u202e" + "x" * 10_000
    with zipfile.ZipFile(io.BytesIO(saved(tmp_path / "m", "decision-tree")[1])) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    said = parts["schema.json"].decode()
    version = json.dumps(json.dumps(sklearn.__version__))[1:-1]
    assert version in said
    parts["schema.json"] = said.replace(version, json.dumps(json.dumps(forged))[1:-1]).encode()
    with zipfile.ZipFile(tmp_path / "m", "w") as file:
        for name, part in parts.items():
            file.writestr(name, part)
    with ForeignModel(tmp_path / "m") as model:
        assert model.predict(table()[0])[0].size
    lines = capfd.readouterr().err.splitlines()
    assert all(line.isprintable() for line in lines)
    warned = [line for line in lines if "InconsistentVersionWarning" in line]
    assert warned
    assert all(len(line) < 2 * MOST_LETTERS for line in warned)
