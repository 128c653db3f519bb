"""How long the first prediction of a process takes."""
