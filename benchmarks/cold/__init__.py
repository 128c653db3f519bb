"""How long the first answer of a process takes."""
