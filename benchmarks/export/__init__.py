"""Exported C beside that of other exporters: speed, size, instructions."""
