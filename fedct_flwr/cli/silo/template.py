"""The text of a new ``silo.toml``, in which every key is explained."""

import textwrap
from collections.abc import Sequence
from typing import Final

import tomli_w

from fedct_flwr.config import Connection, LearnerSettings, Policy, PrivacySettings, TransferSettings
from fedct_flwr.config.caps import Cap, Total, caps_of
from fedct_flwr.config.learner import AUTO
from fedct_flwr.config.mechanisms import ON_COUNTS
from fedct_flwr.config.protections import COVER_VOTES, PROTECTIONS
from fedct_flwr.config.records import RecordsSettings
from fedct_flwr.config.settings import kebab
from fedct_flwr.config.uses import either

_WIDTH: Final = 120

_TEMPLATE: Final = """\
# The settings of one silo. Nobody else has a say in them. Relative paths start at this file's folder.
# After a change nothing leaves: see fedct silo check, then fedct silo approve.

# The silo's name, as the coordinator has it on the study's roster.
silo = {silo}

# The study's folder, as the coordinator handed it out: study.toml and the public set.
study = "study"

# What the silo keeps: the log of all that left, the agent's answers, the trained model.
state = "state"

# The key that signs the log. Keep a copy of keys/egress.pub elsewhere: with it anybody can check the log.
egress-key = "keys/egress.key"

# Four eyes: people and their public keys (openssl genpkey -algorithm ed25519; openssl pkey -pubout). Two of them have
# to approve, each with fedct silo approve --by NAME --key FILE. Without this anybody who may use this folder approves.
# approvers = {{ anna = "keys/anna.pub", ben = "keys/ben.pub" }}


[data]
# The records: a CSV, TSV, Excel or Parquet file with a label column, or a folder that holds a folder of images for each
# class.
file = {data}

# The label column (not for images).
label = {label}

# Records to score the model with, never trained on: another file, or a share of this one. Not both.
# test-file = "test.csv"
test-fraction = 0.0

# What each label of the records means in the study, if they write it otherwise.
# The study's classes: {classes}
# [data.mapping]
# "what the records say" = {first_class}

# How the file writes its records, if not as CSV UTF-8 with commas and decimal points. Dates become days since 1970.
# [data.tables]
# separator = ";"
# decimal = ","
# encoding = "cp1252"
# sheet = "Sheet1"
# dates = "%d.%m.%Y"
# missing = ["-9", "unknown"]
# leave-out = ["comment"]

# Where file is a folder of images: which of them belong together, by their names.
# [data.images]
# group-pattern = "^(p[0-9]+)_"


[learner]
# What is trained here: "auto" (a linear model, a forest or boosted trees, whichever suits your own records by
# cross-validation, also of text and images; nothing of the choice leaves), a short name (decision-tree, random-forest,
# extra-trees, gradient-boosting, hist-gradient-boosting, logistic-regression, svm, nearest-neighbors, naive-bayes,
# xgboost, rulefit, or the network of a paper such as pneumonia-cnn), or the import path of a classifier or a network of
# your own.
name = {learner}

# Installed packages, beside the short names, whose code may run here.
packages = {packages}

# "standard": impute and scale numbers, one column for each category. "none": for images, or a learner that does it.
preprocessing = {preprocessing}

# The weight of a pseudo-labeled public example beside 1 for a record. "auto": 1, unless your own records speak against
# the consensus; then less, down to your own model alone. "fedct silo status" says which it is, and why.
pseudo-weight = {pseudo_weight}

# "balanced": all classes count the same, however many records each has here. For learners that take weights.
class-weight = {class_weight}

# For networks: minibatch steps a round, records in a minibatch, over how many steps of all rounds the learning rate
# falls to a hundredth (0: it never falls), the optimizer, how many times over its examples a network goes that is
# trained only once (0: local-steps for each round), and the device (auto, cpu, cuda, cuda:1, mps).
local-steps = {local_steps}
batch-size = {batch_size}
learning-rate = {learning_rate}
decay-steps = {decay_steps}
weight-decay = {weight_decay}
optimizer = {optimizer}
epochs = {epochs}
device = {device}

# Every random choice of the learner follows from this number.
seed = 0

# Arguments of the learner itself.
[learner.params]
# max_depth = 5


[policy]
# What may leave. The limits are totals over all that ever left for a study and its public set, whatever was approved
# in between: to approve again gives nothing back.
# Kinds of messages: "hard" is one class for each public example that is asked about; "shares" is the same, and all
# silos are told the share of the votes that each class has; "counts" is how many of the students under [transfer] chose
# each class, and each vote counts as a label; "soft" is a probability for each class of it, which tells more than
# labels, each counts as one, and no protection covers them; "sum" is masked labels that look random, of which the
# coordinator can open only the sum over several silos; "count-sum" is the same of students' votes, and "soft-sum" of
# probabilities; "joint" is the same of gradients with noise, for the joint labeler of the study, and stands alone:
# epsilon and delta under [privacy] are then its budget.
kinds = ["hard"]

# Whether test scores may leave (four numbers with each reply). For experiments.
metrics = false

{caps}


[privacy]
{choices}
protection = {protection}

# Epsilon and delta, for each record, in total over the whole study with all its runs. Smaller protects more; delta must
# be well below one divided by the number of records. To raise them later needs a new approval; what was spent stays so.
epsilon = {epsilon}
delta = {delta}

# The plan that the noise is measured for: rounds of the study, and labels in total (0: all public examples each round).
# What the budget does not cover is refused.
rounds = {rounds}
queries = {queries}

{own}


[transfer]
# For studies that ask once, for "counts" or "count-sum" (FedKT): students at most, which are so many votes on each
# example (0: 2, or one with a protection), and how many teachers label for each of them, each trained on its own part
# of the records (0: 5, or 25 with a protection, if there are so many records). With protection = {covering} noise goes
# on the teachers' votes
# ({noises}), of scale 1 / gamma in votes (0: what epsilon and delta call for). lessons
# are the public examples that they then label, and all that costs privacy (0: those that students are asked about).
partitions = {partitions}
teachers = {transfer_teachers}
noise = {transfer_noise}
gamma = {gamma}
lessons = {lessons}


# Limits over several studies about the same records: each study's silo.toml names the same folder on this machine.
# [records]
# folder = "../records-in-common"
{over_studies}
# What all of them together may tell about a record, where each has a protection (0: no limit over studies).
# epsilon = 0.0
# delta = 1e-5


[connection]
# The coordinator, host:port. The only address outside this house that is ever called, and by the SuperNode alone.
superlink = {superlink}

# The coordinator's certificate: who cannot show one that it has signed is not talked to.
ca-certificate = "connection/ca.crt"

# The SuperNode's key. The coordinator knows this silo by connection/node.key.pub.
node-key = "connection/node.key"

# What opens the coordinator's gateway, from the coordinator's invitation.
client-certificate = "connection/client.crt"
client-key = "connection/client.key"

# What the agent shows to its SuperNode.
secret = "connection/secret"

# Where the SuperNode listens for its agent, host:port, inside the house. The agent calls it by plain HTTP and shows
# the secret: keep both on one machine, or on a network that the two share with nobody.
supernode = {supernode}
"""


def silo_toml(
    *,
    silo: str,
    data: str,
    label: str,
    classes: Sequence[str],
    learner: str,
    packages: Sequence[str],
    superlink: str,
    supernode: str = "",
) -> str:
    """The settings of a new silo; what is not given stands there with its default."""
    defaults = LearnerSettings.model_construct()
    values: dict[str, object] = {
        "silo": silo,
        "data": data,
        "label": label,
        "classes": list(classes),
        "first_class": classes[0],
        "learner": learner,
        "packages": list(packages),
        # Images have no label column, and no statistics of columns.
        "preprocessing": "standard" if label else "none",
        "superlink": superlink,
        "supernode": supernode or Connection.model_fields["supernode"].default,
    }
    for name in (
        "pseudo_weight",
        "class_weight",
        "local_steps",
        "batch_size",
        "learning_rate",
        "decay_steps",
        "weight_decay",
        "optimizer",
        "epochs",
        "device",
    ):
        values[name] = getattr(defaults, name)
    # A silo.toml without the key is one of before there was a guard, and stays as it was approved.
    values["pseudo_weight"] = AUTO
    privacy = PrivacySettings()
    values |= {name: getattr(privacy, name) for name in ("protection", "epsilon", "delta", "rounds", "queries")}
    transfer = TransferSettings()
    values |= {"partitions": transfer.partitions, "gamma": transfer.gamma, "lessons": transfer.lessons}
    values |= {"transfer_teachers": transfer.teachers, "transfer_noise": transfer.noise}
    explained = {
        "choices": _choices(),
        "own": _own(privacy),
        "caps": _caps(),
        "over_studies": _over_studies(),
        "covering": _either(COVER_VOTES),
        "noises": _either(ON_COUNTS),
    }
    return _TEMPLATE.format(**{name: _toml(value) for name, value in values.items()}, **explained)


def _choices() -> str:
    """What each protection is, as a comment."""
    said = " ".join(f'"{name}": {entry.choice}.' for name, entry in PROTECTIONS.items())
    return _comment(
        f"Whose labels leave, and what they may tell about a record in total. {said} The model itself stays here and "
        "learns from everything. Without a protection the other keys must keep their defaults."
    )


def _caps() -> str:
    """The limits of the policy, each explained as in the reference."""
    fields = Policy.model_fields
    return "\n\n".join(
        f"{_comment(' '.join((fields[name].description or '').split()))}\n{kebab(name)} = {_toml(fields[name].default)}"
        for name in caps_of(Policy, Cap)
    )


def _over_studies() -> str:
    """The limits that several studies can share."""
    fields = RecordsSettings.model_fields
    return "\n".join(f"# {kebab(name)} = {_toml(fields[name].default)}" for name in caps_of(Policy, Total))


def _own(privacy: PrivacySettings) -> str:
    """The settings that single protections have, with what they are."""
    lines = []
    for name, entry in PROTECTIONS.items():
        if entry.own.model_fields:
            keys = (f"{kebab(key)} = {_toml(getattr(privacy, key))}" for key in entry.own.model_fields)
            lines += [_comment(f'For "{name}": {entry.own_words}.'), *keys, ""]
    return "\n".join(lines).rstrip()


def _either(names: Sequence[str]) -> str:
    """These names as alternatives, as TOML writes them."""
    return either(names).replace("'", '"')


def _comment(text: str) -> str:
    return textwrap.fill(text, _WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)


def _toml(value: object) -> str:
    """A value as TOML writes it, on one line."""
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return tomli_w.dumps({"key": value}).removeprefix("key = ").rstrip("\n")
