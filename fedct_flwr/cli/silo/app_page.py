"""The page that a person reads before approving a Flower app: what may leave by ``[app.replies]``, in words."""

from collections.abc import Iterator, Sequence
from typing import Final

from fedct_flwr.config.app import RecordForm
from fedct_flwr.config.silo import AppSilo
from fedct_flwr.hospital.app_code import fingerprint
from fedct_flwr.hospital.log_entry import Event, LogEntry
from fedct_flwr.text.printable import count, quoted

_MOST_ARRAYS: Final = 20
"""Arrays of a record that the page names: more would push its beginning off the screen."""


def app_sections(config: AppSilo, entries: Sequence[LogEntry]) -> dict[str, list[str]]:
    """All that is to be known before an app is approved: titles, and sentences below them. Raises AppError.

    ``entries`` are the log's lines so far.
    """
    app, most = config.app, config.app.most_bytes
    left = sum(entry.event is Event.RELEASED for entry in entries)
    a_run = app.messages_a_run * most
    return {
        "The app": [
            f"Client app: {app.client}, SHA-256 of its files {fingerprint(app.client)}",
            "Your own people installed it. It runs in the agent's process, reads all that the agent may read, and the "
            "gate does not confine it: approve code that you trust",
            "Packages that it imports are not in this SHA-256",
            *(f"It is given {quoted(key)} = {quoted(str(value), 200)}" for key, value in app.data.items()),
        ],
        "What leaves, to the coordinator": [
            f"The coordinator's address: {config.connection.superlink}",
            *(line for kind, forms in app.replies.items() for line in _reply(kind, forms)),
            "If a message is refused: the number and the fixed sentence of the reason",
        ],
        "Limits": [
            f"At most {most:,} bytes of values in one reply",
            f"{count(app.messages_a_run, 'message')} a run are answered: {a_run:,} bytes of values a run",
            f"{count(app.runs_a_day, 'run')} a day (UTC) may begin: {app.runs_a_day * a_run:,} bytes of values",
            "The log counts bytes of whole messages, which also have names and headers",
            "A message counts as soon as it is let in. No limit holds over all days",
            f"So far {count(left, 'message')} left, by this silo's log"
            if entries
            else "There is no egress log here yet. If this silo has worked before, decline: its state folder is not "
            "mounted, or not restored",
        ],
        "What does not leave": [
            "Any other record, key, dtype, shape or number out of its range; texts of errors; what the app prints",
            "Every reply is written into the egress log, and kept, before it leaves",
            "Code that the coordinator sends is never run",
        ],
        "What you should know": [
            "Model weights may reveal records, and nothing here bounds that",
            "No differential privacy is guaranteed, and the replies are not compared with your records",
            "The coordinator chooses the weights and settings that the app is sent",
            "To withdraw the approval at any time: fedct silo revoke. What has left cannot be called back",
        ],
    }


def _reply(kind: str, forms: dict[str, RecordForm]) -> Iterator[str]:
    """A line for each record of the reply to one type of message."""
    for name, form in forms.items():
        yield f"In reply to {kind!r}, record {quoted(name)}: {_words(form)}"


def _words(form: RecordForm) -> str:
    if form.most_bytes:
        return f"arrays of numbers of any names and shapes, {form.most_bytes:,} bytes with these"
    if form.metrics:
        ranges = (f"{quoted(key)} from {low:,} to {high:,}" for key, (low, high) in form.metrics.items())
        return f"numbers {', '.join(ranges)}"
    if form.config:
        caps = (f"{quoted(key)} of at most {count(most, 'byte')}" for key, most in form.config.items())
        return f"values {', '.join(caps)}"
    shown = [f"{quoted(key)} {one.dtype} {list(one.shape)}" for key, one in [*form.arrays.items()][:_MOST_ARRAYS]]
    more = len(form.arrays) - len(shown)
    rest = f" and {count(more, 'more array')}" if more else ""
    return f"{count(len(form.arrays), 'array')} of {form.num_bytes:,} bytes: {', '.join(shown)}{rest}"
