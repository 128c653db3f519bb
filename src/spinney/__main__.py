"""``python -m spinney`` is the same as the command ``spinney``."""

from spinney.cli import main

main()
