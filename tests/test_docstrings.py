"""Docstrings exist, and their Parameters are those of the signature."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re

import pytest

import spinney

HEADING = re.compile(r"^([A-Z][A-Za-z ]+)\n-+$", re.MULTILINE)


def sections(docstring):
    """Return the numpydoc sections of a docstring as {title: text}."""
    # Splitting at the headings gives the opening, then titles and texts in turn.
    _, *rest = HEADING.split(docstring)
    return dict(zip(rest[::2], rest[1::2], strict=True))


def documented_parameters(docstring):
    """Return the names under Parameters, in order; None without such a section."""
    text = sections(docstring).get("Parameters")
    if text is None:
        return None
    names = []
    for line in text.splitlines():
        if line and not line[0].isspace():
            names += [name.strip(" *") for name in line.partition(" : ")[0].split(",")]
    return names


def signature_parameters(thing):
    """Return the names that a caller of a function or class passes."""
    if inspect.isclass(thing) and issubclass(thing, BaseException):
        return []  # those that every exception takes
    names = list(inspect.signature(thing).parameters)
    if inspect.isfunction(thing) and names[:1] in (["self"], ["cls"]):
        return names[1:]
    return names


def problems(thing, *, complete):
    """Return what is wrong with the docstring of a function or class.

    With `complete`, parameters must be described; otherwise they may be left out
    altogether, where the first line says it all.
    """
    docstring = inspect.getdoc(thing)
    if not docstring:
        return ["has no docstring"]
    found = []
    first = docstring.splitlines()[0]
    if not first.endswith("."):
        found.append(f"first line is no sentence: {first!r}")
    described, taken = documented_parameters(docstring), signature_parameters(thing)
    if described is None:
        if complete and taken:
            found.append(f"does not describe its parameters {taken}")
    elif described != taken:
        found.append(f"describes {described}, but takes {taken}")
    return found


def unwrapped(thing):
    """Return the Python function behind a compiled one."""
    return getattr(thing, "py_func", thing)


def methods_of(kind):
    """Yield (name, function or property) that a class itself makes public."""
    for name, member in vars(kind).items():
        if name.startswith("_"):
            continue
        member = unwrapped(getattr(member, "__func__", member))
        if inspect.isfunction(member) or isinstance(member, property):
            yield name, member


def public_modules():
    """Yield every module of spinney that imports without an optional library."""
    yield spinney
    for found in pkgutil.walk_packages(spinney.__path__, "spinney."):
        if not found.name.rpartition(".")[2].startswith("_"):
            yield importlib.import_module(found.name)


def things_to_check():
    """Yield (dotted name, thing, whether users call it) for all public names."""
    for module in public_modules():
        for name, thing in vars(module).items():
            thing = unwrapped(thing)
            if name.startswith("_"):
                continue
            if getattr(thing, "__module__", None) != module.__name__:
                continue
            label = f"{module.__name__}.{name}"
            for_users = getattr(spinney, name, None) is thing
            if inspect.isfunction(thing):
                yield label, thing, for_users
            elif inspect.isclass(thing):
                yield label, thing, for_users
                for method, member in methods_of(thing):
                    yield f"{label}.{method}", member, for_users


THINGS = {label: (thing, for_users) for label, thing, for_users in things_to_check()}


@pytest.mark.parametrize(
    "module", list(public_modules()), ids=lambda module: module.__name__
)
def test_every_module_says_what_it_is_for(module):
    assert module.__doc__


@pytest.mark.parametrize("label", THINGS)
def test_docstring_tells_what_the_signature_takes(label):
    thing, for_users = THINGS[label]
    if isinstance(thing, property):
        assert inspect.getdoc(thing), f"{label} has no docstring"
    else:
        assert problems(thing, complete=for_users) == []


def test_public_names_are_among_those_checked():
    assert "spinney.forest.forest.Forest" in THINGS
    assert "spinney.forest.forest.Forest.predict" in THINGS
    assert "spinney.readers.dispatch.read_model" in THINGS


def test_the_checker_finds_what_is_wrong():
    def good(a, b, *rest):
        """Do something.

        Parameters
        ----------
        a, b : int
            Numbers.
        *rest : int
            More numbers.

        Returns
        -------
        c : int
            Another.
        """

    def renamed(c):
        """Do something.

        Parameters
        ----------
        d : int
            Was renamed in the signature.
        """

    def short(a):
        """Return the square of `a`."""

    def missing(a):
        pass

    assert problems(good, complete=True) == []
    assert problems(renamed, complete=False) == ["describes ['d'], but takes ['c']"]
    assert problems(short, complete=False) == []
    assert problems(short, complete=True) == ["does not describe its parameters ['a']"]
    assert problems(missing, complete=False) == ["has no docstring"]
