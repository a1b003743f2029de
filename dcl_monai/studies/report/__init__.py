"""The report of a study: one page, and its tables as CSV and LaTeX."""

from .write import write_report

__all__ = ["write_report"]
