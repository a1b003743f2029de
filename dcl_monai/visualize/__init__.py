"""Pictures: training curves and overlays."""

from .curves import plot_curves
from .overlays import draw_examples, plot_overlays

__all__ = ["draw_examples", "plot_curves", "plot_overlays"]
