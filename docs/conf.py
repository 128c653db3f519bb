"""How the documentation is built.

    sphinx-build -W --keep-going -b html -c docs . build/docs

The folder of the sources is that of the whole project: pages link to one another by
relative paths, those of the benchmarks included, and are read as they are on a code
host too.
"""

from __future__ import annotations

import inspect
import sys
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from spinney import __version__  # noqa: E402

project = "spinney"
author = "the spinney developers"
copyright = "the spinney developers"
version = release = __version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
]
templates_path = [str(ROOT / "docs" / "_templates")]
root_doc = "docs/index"
include_patterns = [
    "docs/*.md",
    "docs/gallery/*.rst",
    "examples/README.md",
    "docs/reference/*.rst",
    "benchmarks/README.md",
    "benchmarks/cold/README.md",
    "benchmarks/early/README.md",
    "benchmarks/accelerate/README.md",
    "benchmarks/export/README.md",
    "benchmarks/promise/*.md",
    "benchmarks/rivals/README.md",
    "benchmarks/serving/README.md",
    "benchmarks/papers/*.md",
    "CHANGELOG.md",
]
# Not to be searched for pages at all: an environment holds thousands of folders.
exclude_patterns = [
    ".*",
    "build",
    "dist",
    "src",
    "tests",
    "docs/_*",
    "docs/gallery/sg_*",
    "sg_*",
    "**/results",
    "**/__pycache__",
]

# Links within a page go to headings, named as code hosts name them.
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]
# A changelog repeats "Added", and results repeat the names of data sets.
suppress_warnings = ["myst.header"]

# `name` is a link where there is something of that name, and slanted otherwise.
default_role = "autolink"
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"
autodoc_typehints = "none"  # the docstrings tell, in words
autosummary_generate = True  # a page per name, below docs/reference
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

html_theme = "furo"
pygments_dark_style = "github-dark"  # underlines nothing that is no link
html_title = f"spinney {release}"
html_static_path = ["_static"]
html_css_files = ["spinney.css"]
html_extra_path = ["_root"]  # a page at the top that leads to docs/index.html
html_copy_source = False
html_show_sourcelink = False
# Fonts of the system and nothing from elsewhere: pages can be read without a network.
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#2f6f3e",
        "color-brand-content": "#2f6f3e",
    },
    "dark_css_variables": {
        "color-brand-primary": "#8fce9b",
        "color-brand-content": "#8fce9b",
    },
}


# Examples run when the pages are built, except servers and what needs a C compiler.
sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "docs/gallery",
    "filename_pattern": r"\.py$",
    "ignore_pattern": r"serve_|mlserver_runtime|forest_in_the_browser",
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
}


def is_own(member):
    """Whether a member of a class is defined by spinney, not by a base class."""
    if isinstance(member, property):
        member = member.fget
    elif isinstance(member, cached_property):
        member = member.func
    elif isinstance(member, (classmethod, staticmethod)):
        member = member.__func__
    else:  # a method that exists under a condition only is wrapped
        member = getattr(member, "__wrapped__", member)
        if not inspect.isfunction(member):
            return False
    return member.__module__.startswith("spinney")


def setup(app):
    """Show spinney's own members only, and keep trailing underscores as they are."""

    def skip_foreign(app, what, name, obj, skip, options):
        if what != "class":
            return None
        return True if name.startswith("_") or not is_own(obj) else None

    def with_plain_names(app, what, name, obj, options, lines):
        # In front of numpydoc, which hands types on as they are.
        lines[:] = [
            line.replace("(n_features_in_,)", "(`n_features_in_`,)") for line in lines
        ]

    app.connect("autodoc-skip-member", skip_foreign)
    app.connect("autodoc-process-docstring", with_plain_names, priority=100)
