"""What the bundles are made of: the template of their configuration, and the builders that it names."""

from .budget import fit_schedule
from .builders import (
    DiceEvaluator,
    dual_network,
    parts_evaluator,
    primal_network,
    shuffled_evaluator,
)
from .command_line import check_command_line
from .record import start_record
from .runs import install_model, run_folder
from .settings import check_settings
from .verdict import print_summary

__all__ = [
    "DiceEvaluator",
    "check_command_line",
    "check_settings",
    "dual_network",
    "fit_schedule",
    "install_model",
    "parts_evaluator",
    "primal_network",
    "print_summary",
    "run_folder",
    "shuffled_evaluator",
    "start_record",
]
