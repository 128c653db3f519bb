"""spinney inside other systems: Dask, Spark, Ray, MLflow.

Each module is thin: it brings the model to the workers and leaves scheduling, retries
and storage to the system. None of these libraries is imported before it is used.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

MODULES = ("dask", "mlflow", "ray", "spark")


def __getattr__(name: str) -> ModuleType:
    if name in MODULES:
        return import_module(f"{__name__}.{name}")
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return sorted({*globals(), *MODULES})
