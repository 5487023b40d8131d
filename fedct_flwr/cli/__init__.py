"""The command line: thin commands over the library."""

import warnings

# With PYTHONWARNINGS=error no command would start: typer uses names that click deprecates.
warnings.filterwarnings("ignore", category=DeprecationWarning, module=r"(click|typer)\b")
