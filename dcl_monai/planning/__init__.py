"""Setting up a network from the data, as nnU-Net does: fingerprint, rules, memory, and the overlay that comes of it."""

from .fingerprint import Fingerprint, take_fingerprint
from .overlay import as_json, as_table, check_plan, epoch_steps, make_overlay
from .planner import Plan, make_plan
from .timing import say_time, step_seconds

__all__ = [
    "Fingerprint",
    "Plan",
    "as_json",
    "as_table",
    "check_plan",
    "epoch_steps",
    "make_overlay",
    "make_plan",
    "say_time",
    "step_seconds",
    "take_fingerprint",
]
