"""The card of a run's global model."""

import hashlib
import json

from tests.federation.conftest import Federation


def test_the_card_tells_what_is_known(federation: Federation) -> None:
    settings = {"student": "random-forest", "student_params": '{"n_estimators": 10}'}
    folder = federation.run(algorithm="fedct-qualified", quorum=0.9, **settings)
    path = folder.path / folder.read_json("result.json")["global_model"]["file"]
    card = json.loads(path.with_suffix(".json").read_text())
    assert card["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert card["public-set"] == {"fingerprint": folder.read_json("config.json")["public_fingerprint"], "examples": 228}
    assert card["labels"]["used"] + card["labels"]["without"] == 228
    assert card["labels"]["without"] > 0
    assert card["labels"]["silos"] == ["budapest", "cleveland", "long-beach", "zurich"]
    assert (card["labels"]["rounds"], card["labels"]["quorum"]) == (len(folder.rounds()), 0.9)
    text = path.with_suffix(".md").read_text()
    assert "Nothing is promised" in text
    assert all(word in text for word in (card["sha256"], "random-forest", "quorum of 0.9", "cleveland"))
