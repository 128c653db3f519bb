"""The tables and figures of the four papers, measured again with spinney."""
