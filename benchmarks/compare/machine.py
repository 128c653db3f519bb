"""What has to be known about a machine to read a number measured on it."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import re
from pathlib import Path
from typing import Any

from benchmarks.compare.peers import PEERS

# Beside the engines themselves, what their speed depends on.
ALSO = ("numpy", "numba", "llvmlite", "skl2onnx", "onnxmltools", "treelite")


def describe() -> dict[str, Any]:
    """Return processor, system, date, load and versions."""
    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "load_before": load_average(),
        "versions": versions(),
    }


def cpu_model() -> str:
    """Return the name that the processor gives itself."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        found = re.search(r"^model name\s*:\s*(.+)$", info.read_text(), re.MULTILINE)
        if found:
            return found[1].strip()
    return platform.processor() or platform.machine()


def slug() -> str:
    """Return a file name for results from this machine."""
    words = re.sub(r"\((r|tm)\)", "", cpu_model().lower())
    return re.sub(r"[^a-z0-9]+", "-", f"{words} {os.cpu_count()} cores").strip("-")


def load_average() -> float | None:
    """Return the load of the last minute, where the system tells."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None


def versions() -> dict[str, str]:
    """Return the versions of all engines that are installed, and of their helpers."""
    packages = {name for peer in PEERS.values() for name in peer.packages}
    found = {}
    for name in sorted(packages.union(ALSO), key=str.lower):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    if "spinney" not in found:
        import spinney

        found["spinney"] = f"{spinney.__version__}, from its source folder"
    return found
