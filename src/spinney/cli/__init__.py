"""The command ``spinney``: one file per subcommand."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line, or say how to install what it needs."""
    try:
        from spinney.cli.app import app
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library not in ("typer", "rich"):
            raise
        print(
            f"The command line needs {library}, which is not installed.\n"
            'Hint: install the extra "cli": python -m pip install "spinney[cli]"',
            file=sys.stderr,
        )
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    app(prog_name="spinney")
