"""Small helpers shared by all areas."""

from .errors import DataError, report_user_errors

__all__ = ["DataError", "report_user_errors"]
