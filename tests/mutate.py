"""Plant faults in a copy of the project, one at a time, and require that the tests find each: ``make mutate``.

A fault is one line that is replaced, and the tests of the suite that have to fail then. All of these tests must pass
before the first fault is planted. ``python tests/mutate.py WORD`` plants the faults whose file has WORD in its name.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
COPIED = ("fedct_flwr", "server_app", "client_app", "tests", "docs", "docker", "examples", "benchmarks")
WORKERS = 2


class Fault(NamedTuple):
    """``line`` of ``file`` becomes ``wrong``, and one of the ``tests`` fails: where none are named, the file's own."""

    file: str
    line: str
    wrong: str
    tests: str = ""

    @property
    def finders(self) -> str:
        """The paths of the tests that have to find it, within ``tests``."""
        folder, _, name = self.file.rpartition("/")
        return self.tests or f"{folder}/test_{name}"


FAULTS = [
    # The gate: what leaves answers the question, under the approved terms, within the limits.
    Fault("hospital/gate.py", "if reply.silo != self._silo:", "if False:"),
    Fault("hospital/gate.py", "if any(used + more > limit for", "if any(used > limit for"),
    Fault("hospital/gate.py", 'question.answer not in ("", answer):', "not answer:"),
    Fault("hospital/gate.py", "if self._usage.approved != self._bounds.approving or", "if"),
    Fault("hospital/gate.py", "is not None and not self._policy.metrics:", "is None:"),
    Fault("hospital/gate.py", "if asked > limit:", "if asked > limit + 1:"),
    # The approval: who gives it, and what it is of.
    Fault("hospital/approval.py", "if len(signed) < 2:", "if len(signed) < 1:", "cli/test_governance.py"),
    Fault("hospital/approval.py", '"policy": config.policy.decides,', ""),
    Fault("hospital/approval.py", "in (Event.APPROVED, Event.REVOKED)]", "is Event.APPROVED]"),
    # What is used is what was approved: one reading, and contents are compared.
    Fault(
        "silo/round.py",
        "return _OWN.get() or silo.read_once(",
        "return silo.read_once(",
        "attacks/test_swapped_files.py",
    ),
    Fault("hospital/file_watch.py", "return digest_of(path) if", "return '' if", "attacks/test_swapped_files.py"),
    # Under a promise a record that cannot be read is left out, and no other.
    Fault(
        "silo/own.py",
        "read_each if config.always",
        "read_each if not config.always",
        "attacks/test_protected_answers.py",
    ),
    Fault("datasets/delimited.py", "strict=True))) == 1", "))) == 1", "attacks/test_protected_answers.py"),
    Fault(
        "silo/own.py", "except FailedOnRecordsError:", "except ZeroDivisionError:", "attacks/test_protected_answers.py"
    ),
    Fault("silo/own.py", "if not config.always_answers:", "if True:", "attacks/test_protected_answers.py"),
    Fault(
        "datasets/silo_records.py", "if len(rows) > 1 else []", "if False else []", "attacks/test_protected_answers.py"
    ),
    Fault(
        "datasets/silo_records.py", "if columns[group].null_count:", "if False:", "attacks/test_protected_answers.py"
    ),
    # The egress log: a chain that is signed, and a head that knows its length.
    Fault("hospital/log_entry.py", "if head.count > number:", "if False:", "hospital/test_egress_log.py"),
    Fault(
        "hospital/log_entry.py",
        'if record.get("number") != self.number + 1 or record.get("previous") != self.last:',
        "if False:",
        "hospital/test_egress_log.py",
    ),
    Fault(
        "hospital/log_entry.py",
        "self.public_key.verify(signature, _LINE + digest)",
        "pass",
        "hospital/test_egress_log.py",
    ),
    # Labels are printed of an intact log alone.
    Fault("cli/silo/verify.py", "verdict.intact and (line", "False and (line", "cli/test_silo_released.py"),
    Fault("cli/silo/verify.py", "raise _broken(verdict)\n    study", "pass\n    study", "cli/test_silo_released.py"),
    # A reply of another app is what is declared, rebuilt, once for each message.
    Fault("hospital/app_gate.py", "if type(name) is not str or name not in forms:", "if False:"),
    Fault("hospital/app_gate.py", "if not low <= number <= high:", "if number < low or number > high:"),
    Fault("hospital/app_gate.py", 'flat = flat.view(np.uint8) != 0 if dtype.kind == "b" else flat', ""),
    Fault("hospital/app_gate.py", "if not asked.request or asked.run != run_id:", "if False:"),
    Fault("hospital/app_agent.py", "copy.copy(task.message.metadata)", "task.message.metadata"),
    # Carried files open with the silo's own secret alone.
    Fault(
        "hospital/offline_transport.py",
        "_PURPOSES[kind]).derive(key)",
        "_PURPOSES[kind]).derive(b'')",
        "hospital/test_air_gap.py",
    ),
    # The ledger: charged before it is drawn, once, within the budget that was approved.
    Fault("privacy/ledger.py", "if asked.epsilon > known.epsilon or", "if"),
    Fault("privacy/ledger_file.py", "SELECT event, count(*) FROM", "SELECT event, 1 FROM", "privacy/test_ledger.py"),
    Fault("privacy/ledger.py", "ComposedDpEvent([spent, more]) if more else spent", "spent"),
    # The budget over all studies: each charges it, and labels without a protection end it.
    Fault(
        "privacy/ledger.py", "if records.folder is None:", "if not records.epsilon:", "hospital/test_shared_usage.py"
    ),
    Fault("hospital/shared_usage.py", "if self._bare and step.queries:", "if False:"),
    # The accountant.
    Fault("privacy/accounting.py", "leaf.sensitivity**2 / (2 *", "leaf.sensitivity**2 / (4 *"),
    Fault("privacy/accounting.py", "noise_multiplier / math.sqrt(count)", "noise_multiplier"),
    # Mechanisms add the noise that their events say.
    Fault(
        "privacy/mechanisms.py",
        "noise.discrete_laplace(self.scale",
        "noise.discrete_laplace(self.scale / 2",
        "privacy/mechanisms",
    ),
    Fault(
        "privacy/mechanisms.py",
        "2 * self.votes_per_unit / self.scale",
        "self.votes_per_unit / self.scale",
        "privacy/mechanisms",
    ),
    Fault(
        "privacy/mechanisms.py",
        "changed[abstains] = False",
        "labels[abstains] = 0",
        "privacy/mechanisms",
    ),
    Fault("privacy/noise_shares.py", "return min_summands - may_collude", "return min_summands"),
    Fault(
        "privacy/noise_shares.py", "nextafter(self.scale / math.sqrt(self.honest)", "nextafter(self.scale / self.honest"
    ),
    # The privacy sheet states the noise that epsilon follows from.
    Fault(
        "silo/noisy_sum.py",
        "joint.honest, noise.event().noise_multiplier",
        "joint.honest, 1.0",
        "cli/test_privacy_sheet.py",
    ),
    Fault("privacy/events.py", "{1 / event.noise_parameter", "{event.noise_parameter", "privacy/test_sheet.py"),
    # What every message is: one encoding, of the same study and public set.
    Fault("wire/codec.py", "if payload != encoded:", "if False:"),
    Fault("wire/codec.py", "!= terms.public_fingerprint:", "is None:"),
    Fault("wire/kinds.py", "if bits[count * width :].any():", "if False:", "wire/test_packing.py"),
    Fault("wire/kinds.py", "max() >= num_classes + abst", "max() > num_classes + abst", "wire/test_packing.py"),
    # Secure sums: masks cancel, too few shares tell nothing, and no step is answered twice with other contents.
    Fault("secure_sum/masks.py", "self._total -= self._mask", "self._total += self._mask", "secure_sum/test_sums.py"),
    Fault("secure_sum/masks.py", "range(quorum - 1)", "range(max(1, quorum - 2))", "secure_sum/test_shares.py"),
    Fault("secure_sum/silo.py", "if asked != request:", "if False:", "secure_sum"),
    Fault("secure_sum/silo.py", "if current.list_signed not in (None, ask.survivors):", "if False:", "secure_sum"),
    Fault("secure_sum/silo.py", "if ask.shape.subject in self.subjects:", "if False:", "secure_sum"),
    # A silo whose labels are the opposite of all others' counts nothing.
    Fault(
        "coordinator/cotraining.py",
        "for silo, own in self.votes.items() if silo not in self.excluded)",
        "for silo, own in self.votes.items())",
        "federation/test_cotraining.py",
    ),
    # Consensus.
    Fault("consensus/dawid_skene.py", "_decided(found.posterior / found.priors", "_decided(found.posterior"),
    Fault("consensus/counting.py", "np.maximum(voters, 1) < quorum", "np.maximum(voters, 1) <= quorum"),
    Fault("consensus/counting.py", "labels[tied] = np.where(stays, now, drawn)", "labels[tied] = drawn"),
    Fault("consensus/prediction.py", "np.divide(p, one_and_entropy, out=work)", "np.copyto(work, p)", "consensus"),
    # The guard judges by records that a model has not seen.
    Fault("learners/safeguard.py", ">= -evidence.error - self.margin", ">= -9 * evidence.error - self.margin"),
    Fault(
        "learners/out_of_fold.py",
        "train(Examples(self._private.X[~there], self._private.y[~there]))",
        "train(self._private)",
        "learners/test_safeguard.py",
    ),
    # Counts for a drawn public set, with noise and of the approved study alone.
    Fault("silo/noisy_sum.py", "+ noise.share(purse.noise(question))", "", "hospital/test_drawing.py"),
    Fault("silo/noisy_sum.py", "if asked.study != study.digest:", "if False:", "hospital/test_drawing.py"),
    # Training on a table, and with networks.
    Fault("learners/sklearn.py", "self.labels[y], **fit_params", "y, **fit_params", "learners interop/test_classes.py"),
    Fault("silo/weights.py", "value - own[name] for", "own[name] - value for", "silo/test_drift.py"),
    Fault("labelers/dp_linear.py", "residuals = _clipped(residuals, longest)", "pass", "labelers/test_joint_linear.py"),
    # Readers.
    Fault("datasets/delimited.py", "decimal_point=tables.decimal,", ""),
    Fault("datasets/delimited.py", ", *missing]", "]", "datasets"),
    # A query: what an error may quote, and what it may read.
    Fault("coordinator/questions.py", "self._roster.claim(node, silo)", "pass", "coordinator"),
    Fault("coordinator/joint.py", "if 2 * lost > steps:", "if False:", "federation/test_joint.py"),
    Fault("coordinator/joint.py", "in_a_row == _LOST_IN_A_ROW:", "in_a_row < 0:", "federation/test_joint.py"),
    Fault("datasets/query.py", "return name in known or", "return True or"),
    Fault("datasets/query.py", 'if statements[0].type.name == "SELECT" else ""', ""),
    Fault("datasets/query.py", "+ _MOST_MEMORY", "+ (_MOST_MEMORY << 6)"),
    Fault("datasets/query.py", "size < _MOST_BYTES >> 6 and", ""),
    Fault("datasets/query.py", "[*map(str, files)]", "[*map(str, place.iterdir())]"),
    Fault(
        "datasets/partition.py",
        "rng.permutation(num_examples), num_silos",
        "rng.integers(num_examples, size=num_examples), num_silos",
    ),
    Fault("files.py", "Path(name).replace(path)", "path.write_bytes(content)", "files/test_atomic.py"),
    # Files from elsewhere run no code.
    Fault("models/loading.py", "and package(name) not in packages:", "and False:", "models/test_model_file.py"),
    # Learners, labelers and drawn sets.
    Fault("learners/safeguard.py", "if not self._can_tell:", "if False:"),
    Fault("learners/automatic.py", "return found or self._safe", "return self._safe"),
    Fault("learners/trained_model.py", "if (codes < 0).any():", "if False:"),
    Fault("learners/trained_model.py", "if not np.isfinite(found).all():", "if False:", "learners"),
    Fault("learners/soft.py", "if targets is None or not weight", "if True or not weight"),
    Fault("labelers/joint_linear.py", "if num_records > _MOST_RECORDS:", "if False:"),
    Fault("drawing/cells.py", "if self.ordered:", "if False:"),
    Fault("drawing/counts.py", "if agreed.records <", "if False and agreed.records <", "drawing"),
    # Baselines, references and scores.
    Fault("baselines/dp_fedavg.py", "if length <= norm:", "if True:", "federation/test_drift.py"),
    Fault("baselines/client_drift.py", 'return {"proximal_mu": self.mu}', "return {}", "federation/test_drift.py"),
    Fault("scoring/intervals.py", "if not trials:", "if False:", "scoring runs"),
    Fault("scoring/assessment.py", "if positive is None:", "if False:", "scoring"),
    # Runs, simulations and reports.
    Fault("runs/run_folder.py", "if changed:", "if False:"),
    Fault("simulation/repeats.py", "if begun and seed not in", "if False and seed not in"),
    Fault(
        "simulation/comparing.py", "return self.p < 1 - LEVEL", "return self.p < LEVEL", "simulation/test_ranking.py"
    ),
    Fault("simulation/silos.py", "if tests is not None:", "if False:", "simulation/test_repeats.py"),
    Fault("survival/measures.py", "if negative := int((time < 0)", "if negative := int((time < -9)", "survival"),
    Fault("report/summary.py", "if not (folder.path / TABLE_ONE)", "if (folder.path / TABLE_ONE)", "report"),
    Fault("audit/success.py", "if delta == 0:", "if True:", "audit/test_bounds.py audit/test_success.py"),
    Fault("audit/audit.py", "guessed[COORDINATOR] == together", "guessed[COORDINATOR] != together", "audit"),
    # Data sets, models and Flower.
    Fault("datasets/partition.py", "if concentration <= 0:", "if False:"),
    Fault("datasets/partition.py", "if wanted > records.size:", "if False:", "datasets"),
    Fault("datasets/inspection/labels_fit.py", "if fit.reversed:", "if False:", "messy/test_labels_fit.py"),
    Fault("datasets/inspection/data_set.py", "if number < max(_FEWEST, 0.02 * size):", "if number < 0:", "messy"),
    Fault("scoring/assessment.py", "FEWEST: Final = 3", "FEWEST: Final = 0", "scoring silo"),
    Fault("flower/grid.py", "if (start := started.get(", "if False and (start := started.get("),
    Fault("flower/loopback.py", "if self._stopped and self._stopped.is_set():", "if False:"),
    Fault("config/run.py", 'if self.data == "files" and not self.data_dir:', "if False:", "config/test_run_config.py"),
    Fault("survival/cox.py", "if gained < _ENOUGH:", "if True:"),
]


def pytest(tree: Path, tests: str) -> int:
    """The exit code of these tests in a copy of the project."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:randomly"]
    paths = [str(tree / "tests" / path) for path in tests.split()]
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run([*command, *paths], cwd=tree, env=environment, capture_output=True).returncode


def planted(fault: Fault, trees: "Queue[Path]") -> str:
    """What is wrong about the tests of a fault; empty if they find it."""
    tree = trees.get()
    path = tree / "fedct_flwr" / fault.file
    try:
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        if fault.line not in text:
            return f"{fault.file} has no line with {fault.line!r}: correct FAULTS"
        path.write_text(text.replace(fault.line, fault.wrong, 1), encoding="utf-8")
        code = pytest(tree, fault.finders)
        path.write_text(text, encoding="utf-8")
        return (
            ""
            if code == 1
            else f"{fault.file}: {fault.wrong!r} for {fault.line!r} passes {fault.finders} (exit {code})"
        )
    finally:
        trees.put(tree)


def copied(to: Path) -> Path:
    """A copy of the project."""
    for name in COPIED:
        shutil.copytree(ROOT / name, to / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy(path, to / path.name)
    return to


def main(words: list[str]) -> int:
    """The exit code."""
    faults = [fault for fault in FAULTS if not words or any(word in fault.file for word in words)]
    with tempfile.TemporaryDirectory() as folder:
        trees: Queue[Path] = Queue()
        for number in range(WORKERS):
            trees.put(copied(Path(folder) / str(number) / "project"))
        tree = trees.get()
        if code := pytest(tree, " ".join(sorted({path for fault in faults for path in fault.finders.split()}))):
            print(f"the tests fail without any fault (exit code {code})", file=sys.stderr)
            return 1
        trees.put(tree)
        with ThreadPoolExecutor(WORKERS) as pool:
            missed = list(filter(None, pool.map(lambda fault: planted(fault, trees), faults)))
    for sentence in missed:
        print(sentence, file=sys.stderr)
    print(f"{len(faults) - len(missed)} of {len(faults)} faults found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
