"""Small helpers shared by all areas."""

from .errors import DataError, report_user_errors
from .settings import as_bool

__all__ = ["DataError", "as_bool", "report_user_errors"]
