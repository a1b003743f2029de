"""The paper's studies as runs that can be stopped and repeated, their statistics, and the report."""

from .recipes import RECIPES, Recipe
from .runner import run_study
from .settings import BUDGETS, StudySettings, open_study, save_study
from .tables import STUDIES, Row, Study

__all__ = [
    "BUDGETS",
    "RECIPES",
    "STUDIES",
    "Recipe",
    "Row",
    "Study",
    "StudySettings",
    "open_study",
    "run_study",
    "save_study",
]
