"""Other ways to evaluate fewer trees, at equal disagreement on held-out rows."""
