"""The demonstration's folders, with a study whose silos train the joint labeler, approved by each of them."""

import os
import sys
from pathlib import Path

sys.path.insert(0, "/usr/local/lib/fedct")
import hand_out

from fedct_flwr.config import SiloConfig
from fedct_flwr.datasets.study_folder import read_study
from fedct_flwr.hospital import approval
from fedct_flwr.hospital.egress_log import EgressLog
from fedct_flwr.hospital.keys import load_egress_key, public_key_path

AGREED = hand_out.MADE / ".agreed"


def agree(silos: list[Path]) -> None:
    """Write what all have agreed on into each copy of the study, and let the silos approve it."""
    keys = {silo.name: public_key_path(silo / "keys" / "egress.key").read_text().splitlines()[1] for silo in silos}
    lines = [f'{name} = "{key}"' for name, key in keys.items()]
    agreed = "\n".join(["", "[joint]", "records = 500", "", "[sums.keys]", *lines, ""])
    for study in (hand_out.MADE / "coordinator" / "study", *(silo / "study" for silo in silos)):
        with (study / "study.toml").open("a") as file:
            file.write(agreed)
    for silo in silos:
        path = silo / "silo.toml"
        # Enough for two runs.
        budget = '[policy]\nkinds = ["joint"]\n\n[privacy]\nepsilon = 2.0\n'
        path.write_text(path.read_text().replace("[policy]\nmetrics = true\n", budget))
        config = SiloConfig.read_toml(path)
        with EgressLog.open(config.state, config.silo, load_egress_key(config.egress_key)) as log:
            approval.approve(log, config, read_study(config.study))


if __name__ == "__main__":
    os.umask(0o077)
    hand_out.make()
    if not AGREED.exists():
        agree(sorted((hand_out.MADE / "silos").iterdir()))
        AGREED.touch()
    hand_out.hand_out()
