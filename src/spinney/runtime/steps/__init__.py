"""Stopping inside a tree: rows that advance one level at a time, in a given order."""
