"""The names that users may rely on."""

from __future__ import annotations

import inspect
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

import spinney

PYPROJECT = Path(__file__).parent.parent / "pyproject.toml"


@pytest.mark.parametrize("name", spinney.__all__)
def test_every_public_name_exists_and_is_documented(name):
    thing = getattr(spinney, name)
    if name != "__version__":
        assert inspect.getdoc(thing)


def test_public_names_are_sorted_and_unique():
    assert spinney.__all__ == sorted(set(spinney.__all__))


def test_nothing_else_is_public():
    others = {
        name
        for name, thing in vars(spinney).items()
        if not name.startswith("_") and not inspect.ismodule(thing)
    }
    assert others - {"annotations"} <= set(spinney.__all__)


def test_a_star_import_brings_exactly_the_public_names():
    names = {}
    exec("from spinney import *", names)
    assert set(names) - {"__builtins__"} == set(spinney.__all__)


def test_installed_version_is_the_one_in_the_code():
    assert version("spinney") == spinney.__version__


def test_extra_all_brings_every_optional_library():
    extras = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]
    (everything,) = extras["all"]
    named = everything.removeprefix("spinney[").removesuffix("]").split(",")
    assert set(named) == set(extras) - {"all", "docs", "test"}
