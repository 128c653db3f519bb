"""Examples of the documentation run, links lead somewhere, nothing is left out."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

import spinney
from spinney.cli.app import app

ROOT = Path(__file__).parent.parent
DOCS = sorted((ROOT / "docs").glob("**/*.md"))
PAGES = [ROOT / "README.md", *DOCS]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
NEEDS = re.compile(r"<!-- examples need: (.*) -->")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def python_blocks(page):
    """Yield each example of a page as (number of its first line, source)."""
    text = page.read_text(encoding="utf-8")
    for match in BLOCK.finditer(text):
        yield text.count("\n", 0, match.start(1)) + 1, match[1]


def run_examples(page):
    """Run the examples of a page one after another, as a reader would."""
    names = {"__name__": "__main__"}
    for line, source in python_blocks(page):
        # Empty lines in front make a traceback name the line of the page.
        code = compile("\n" * (line - 1) + source, str(page), "exec")
        exec(code, names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_run_in_the_order_in_which_they_are_read(page, tmp_path, monkeypatch):
    for library in re.findall(r"\w+", " ".join(NEEDS.findall(page.read_text("utf-8")))):
        pytest.importorskip(library, reason=f"needs the extra {library}")
    monkeypatch.chdir(tmp_path)
    run_examples(page)


def test_readme_has_an_example():
    assert list(python_blocks(ROOT / "README.md"))


def test_a_failing_example_is_noticed_and_its_line_is_named(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("text\n\n```python\nx = 1\n```\n\n```python\nassert x == 2\n```\n")
    with pytest.raises(AssertionError) as caught:
        run_examples(page)
    assert caught.traceback[-1].lineno + 1 == 8


# ---------------------------------------------------------------------------- links


def anchors_of(page):
    """Return what the headings of a page are called in links."""
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
        for heading in HEADING.findall(text)
    }


def broken_links(page):
    """Return the links of a page that lead nowhere in the project."""
    broken = []
    for link in LINK.findall(FENCED.sub("", page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors_of(target)):
            broken.append(link)
    return broken


LINKING = [
    *PAGES,
    *sorted((ROOT / "benchmarks").glob("**/*.md")),
    *sorted((ROOT / "examples").glob("*.md")),
]


@pytest.mark.parametrize("page", LINKING, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    assert broken_links(page) == []


def test_a_broken_link_is_noticed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# A heading, and more\n\n[a](#a-heading-and-more) [b](#b) [c](c)\n"
    )
    assert broken_links(page) == ["#b", "c"]


# ------------------------------------------------------------------------ reference


def documented():
    """Return the dotted names that have a page in the reference."""
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    return re.findall(r"^   (spinney\.\S+)$", page, re.MULTILINE)


@pytest.mark.parametrize("name", sorted(set(spinney.__all__) - {"__version__"}))
def test_reference_has_a_page_for_every_public_name(name):
    assert documented().count(f"spinney.{name}") == 1


def test_reference_has_nothing_that_is_not_there():
    for name in documented():
        module, _, last = name.rpartition(".")
        assert hasattr(__import__(module, fromlist=[last]), last), name


@pytest.mark.slow
def test_documentation_builds_without_warnings(tmp_path):
    for package in ("sphinx", "myst_parser", "numpydoc", "furo", "sphinx_gallery"):
        pytest.importorskip(package, reason="needs the extra docs")
    command = ["-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "-c", "docs"]
    done = subprocess.run(
        [sys.executable, *command, ".", str(tmp_path / "html")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    start = (tmp_path / "html" / "docs" / "index.html").read_text(encoding="utf-8")
    pages = tmp_path / "html" / "docs"
    reference = (pages / "reference" / "spinney.CascadeClassifier.html").read_text(
        encoding="utf-8"
    )
    assert "Where to begin" in start
    assert 'id="spinney.CascadeClassifier.predict_counted"' in reference
    assert 'id="spinney.CascadeClassifier.get_params"' not in reference
    gallery = (pages / "gallery" / "predict_by_deadline.html").read_text("utf-8")
    assert "backward squirrel order" in gallery
    assert "sphx_glr_predict_by_deadline_001.png" in gallery
    # It is read without a network.
    assert not re.search(
        r'(?:src|href)="https?://[^"]*\.(?:js|css)"', start + reference
    )


# ------------------------------------------------------------------ the papers' page


def test_the_papers_page_is_what_its_generator_writes():
    results = pytest.importorskip(
        "benchmarks.papers.results", reason="benchmarks are not shipped here"
    )
    assert results.PAGE.read_text(encoding="utf-8") == results.render()


def test_what_the_papers_print_is_the_same_everywhere():
    published = pytest.importorskip(
        "benchmarks.papers.published", reason="benchmarks are not shipped here"
    )
    from benchmarks.papers import sequential

    for name, trees, error_of_all, error in sequential.PAPER.values():
        column = published.TABLE_4[name]
        assert (column.trees, column.error_of_all, column.error) == (
            trees,
            error_of_all,
            error,
        )


def test_means_are_called_alike_only_within_chance():
    side_by_side = pytest.importorskip(
        "benchmarks.papers.side_by_side", reason="benchmarks are not shipped here"
    )
    measured = side_by_side.Measured
    paper = measured(10.0, 1.0, 100)
    assert side_by_side.compared(measured(10.3, 1.0, 25), paper, "", 2) == "Alike."
    apart = side_by_side.compared(measured(10.5, 1.0, 25), paper, " %", 2, "Because.")
    assert apart == "0.50 % higher. Because."


COMMAND = re.compile(r"^(?:\$ )?(spinney (?:[^\n]*\\\n)*[^\n]*)$", re.MULTILINE)


def shell_blocks(page):
    """Yield the text of every block of a page that names no language, or console."""
    language, lines = None, []
    for line in page.read_text(encoding="utf-8").splitlines():
        if not line.startswith("```"):
            lines.append(line)
        elif language is None:
            language, lines = line.removeprefix("```"), []
        else:
            if language in ("", "console"):
                yield "\n".join(lines)
            language = None


def shell_commands():
    """Yield every ``spinney ...`` in the shell blocks of the pages."""
    for page in PAGES:
        for block in shell_blocks(page):
            for command in COMMAND.findall(block):
                words = shlex.split(command.replace("\\\n", " "), comments=True)
                yield pytest.param(words[1:], id=f"{page.name}: {' '.join(words)[:60]}")


@pytest.mark.parametrize("words", list(shell_commands()))
def test_commands_in_shell_blocks_exist_with_their_options(words):
    commands = get_command(app).commands
    assert words[0] in commands, f"there is no command {words[0]!r}"
    # Parsed, not run: a wrong option or a missing argument raises.
    commands[words[0]].make_context(words[0], list(words[1:]))
