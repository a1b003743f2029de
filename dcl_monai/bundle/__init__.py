"""What the bundles are made of: the template of their configuration, and the builders that it names."""

from .builders import (
    DiceEvaluator,
    dual_network,
    parts_evaluator,
    primal_network,
    print_summary,
    shuffled_evaluator,
)
from .command_line import check_command_line

__all__ = [
    "DiceEvaluator",
    "check_command_line",
    "dual_network",
    "parts_evaluator",
    "primal_network",
    "print_summary",
    "shuffled_evaluator",
]
