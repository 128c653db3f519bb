"""Code for other places: one C file from a forest or a fitted classifier."""

from __future__ import annotations

from spinney.export.c import export_c
from spinney.export.compiled import CompiledModel, compile
from spinney.export.report import ExportReport

__all__ = ["CompiledModel", "ExportReport", "compile", "export_c"]
