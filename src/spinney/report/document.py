"""The report itself: a dict that can be shown and saved."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from html import escape
from typing import Any

from spinney.errors import InvalidArgumentError
from spinney.persistence.atomic_write import write_atomically
from spinney.report.collecting import collect
from spinney.report.page import page_of
from spinney.report.plain_text import markdown_of, text_of_page


class Report(dict[str, Any]):
    """Measurements of a classifier on given rows, and pages made from them.

    It is a dict of plain JSON values, made by ``classifier.report(X, y)``.

    Parameters
    ----------
    facts : mapping
        What `spinney.report.collect` has found, or what such a report was saved as:
        ``Report(json.load(file))``.

    See Also
    --------
    spinney.report.collect : Gathers the numbers.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from sklearn.frozen import FrozenEstimator
    >>> import spinney
    >>> from spinney.report import make_report
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = RandomForestClassifier(25, random_state=0).fit(X[:300], y[:300])
    >>> quick = spinney.SequentialVotingClassifier(
    ...     FrozenEstimator(model), max_disagreement=0.05, random_state=0
    ... ).fit(X[300:400])
    >>> report = make_report(quick, X[400:], y[400:])
    >>> report["kind"], report["rows"]["n_rows"]
    ('sequential', 169)
    >>> print(report.to_markdown().splitlines()[0])
    # Early exit by votes
    """

    def __init__(self, facts: Mapping[str, Any]) -> None:
        super().__init__(facts)

    def to_html(self) -> str:
        """Return a self-contained HTML page.

        Returns
        -------
        page : str
            The page, with style, script and drawings in it. Needs jinja2, the extra
            ``report``.
        """
        from spinney.report.rendering import html_of

        return html_of(page_of(self))

    def to_markdown(self) -> str:
        """Return the report as Markdown, with tables instead of drawings.

        Returns
        -------
        text : str
            The text.
        """
        return markdown_of(page_of(self))

    def to_text(self) -> str:
        """Return a summary as plain text, for a terminal.

        Returns
        -------
        text : str
            The text.
        """
        return text_of_page(page_of(self))

    def to_json(self) -> str:
        """Return the numbers as JSON.

        Returns
        -------
        text : str
            The text.
        """
        return json.dumps(self, indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the report to a file, atomically.

        Parameters
        ----------
        path : str or path
            File to write; an existing one is replaced. The format depends on the
            suffix: ``.html``, ``.md``, ``.txt`` or ``.json``.
        """
        name = os.fspath(path)
        suffix = os.path.splitext(name)[1].lower()
        makers = {
            ".html": self.to_html,
            ".md": self.to_markdown,
            ".txt": self.to_text,
            ".json": self.to_json,
        }
        if suffix not in makers:
            msg = (
                "The suffix of the file selects the format of the report: one of "
                f"{', '.join(makers)}, got {name!r}."
            )
            raise InvalidArgumentError(msg)
        write_atomically(name, [makers[suffix]().encode("utf-8")])

    def __repr__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str | None:
        """Return a frame with the page, for notebooks; None without jinja2."""
        try:
            page = self.to_html()
        except ImportError:
            return None
        return (
            '<iframe title="spinney report" sandbox="allow-scripts" width="100%" '
            f'height="720" frameborder="0" srcdoc="{escape(page)}"></iframe>'
        )


def make_report(
    classifier: Any, X: Any, y: Any = None, *, verbose: Any = None
) -> Report:
    """Report on a fitted classifier.

    Parameters
    ----------
    classifier : fitted classifier of spinney
        Of any kind.
    X : array-like of shape (n_rows, n_features)
        Rows, at least one; preferably rows that were not used for training or fitting.
    y : array-like of shape (n_rows,), optional
        True labels, to count errors with.
    verbose : bool, callable or None, default=None
        Whether to draw a progress bar on standard error; a callable is given the share
        of the work that is done. None draws one in interactive use, if it takes more
        than two seconds.

    Returns
    -------
    report : Report
        A dict of plain values; ``report.save("page.html")`` writes it as a page.
    """
    return Report(collect(classifier, X, y, verbose=verbose))
