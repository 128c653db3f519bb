"""What a fitted classifier does on given rows: numbers first, then a page to show.

`collect` gathers plain numbers, `Report` turns them into HTML, Markdown or text.
"""

from spinney.report.collecting import collect
from spinney.report.document import Report, make_report

__all__ = ["Report", "collect", "make_report"]
