"""Small helpers shared by all areas."""

from .errors import DataError, report_user_errors
from .settings import as_bool, as_literal

__all__ = ["DataError", "as_bool", "as_literal", "report_user_errors"]
