"""An agent that is at work takes a new approval: it starts anew, as the same process, with the settings of now."""

import re
from pathlib import Path

from fedct_flwr.config import SiloConfig
from fedct_flwr.hospital.approval import approving, terms_digest
from fedct_flwr.hospital.keys import load_egress_key
from fedct_flwr.hospital.log_entry import Event
from fedct_flwr.hospital.next_approval import leave
from tests.hospital.agents import silos_in
from tests.patience import eventually


def test_an_agent_at_work_starts_anew_with_what_is_approved(tmp_path: Path) -> None:
    with silos_in(tmp_path) as make:
        silo = make()
        process = silo.start_process()
        eventually(lambda: len(silo.of(Event.OPENED)) == 1)
        text = silo.file.read_text("utf-8")
        silo.file.write_text(re.sub(r"^\[policy\]$", "[policy]\nmax-rounds = 7", text, flags=re.MULTILINE), "utf-8")
        config = SiloConfig.read_toml(silo.file)
        assert config.policy.max_rounds == 7
        leave(config.state, approving(config, silo.study, by="anna"), load_egress_key(config.egress_key), after=1)
        eventually(lambda: len(silo.of(Event.OPENED)) == 2)
        assert process.poll() is None
        events = silo.events()
        assert [entry.event for entry in events] == [Event.APPROVED, Event.OPENED, Event.APPROVED, Event.OPENED]
        assert events[2].details["terms"] == terms_digest(config, silo.study).hex()
        # What it answers is under the new terms.
        silo.ask()
        silo.reply()
        assert [entry.event for entry in silo.events()[4:]] == [Event.ADMITTED, Event.RELEASED]
