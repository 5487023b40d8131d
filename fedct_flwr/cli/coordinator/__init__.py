"""``fedct coordinator``: commands for the coordinator of a study."""

from fedct_flwr.cli.lazy import lazy_group

HELPS = {
    "init": "Make a coordinator's folder: certificates, a secret, and a place for study, silos' keys and runs.",
    "draw": "Draw a public set where none exists, from a data dictionary or real silos' counts.",
    "invite": "Write one signed file with all that a silo needs to join: study, address, certificates.",
    "register": "Admit the silos' nodes to the running SuperLink, by their public keys.",
    "status": "Show SuperLink, silos and when each was last seen, certificates, database and disk.",
    "unregister": "Let silos depart: their keys are no longer answered, and no run waits for them.",
    "rotate": "Replace silos' keys, or the authorities, in two steps.",
    "metrics": "Give Prometheus the numbers of fedct coordinator status: silos, certificates, database, disk.",
    "run": "Run the study with real silos: rounds are shown as they end.",
    "stop": "End a run that is under way.",
}

MODULES = {"metrics": "status", "stop": "run", "unregister": "register"}

app = lazy_group(__name__, HELPS, MODULES, "For the coordinator of a study: certificates, the silos' nodes, and runs.")
