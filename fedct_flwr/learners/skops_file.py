"""Trained models in skops format, written in a third of the time and of the bytes that skops takes.

It indents the JSON that describes a model, and Python's fast encoder does not indent. A thousand silos keep a thousand
models a round.
"""

import io
import json
import zipfile
from typing import Any


def dumps(model: Any) -> bytes:
    """What ``skops.io.dumps`` gives, but for blanks. Raises what that raises."""
    import skops
    from skops.io._utils import SaveContext, get_state

    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        context = SaveContext(zip_file=file)
        # Whole objects stay alive meanwhile: skops knows them by where they are in memory.
        said = {**get_state(model, context), "protocol": context.protocol, "_skops_version": skops.__version__}
        file.writestr("schema.json", json.dumps(said))
    return content.getvalue()
