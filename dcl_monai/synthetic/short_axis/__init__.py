"""
Short-axis stacks of a parametric heart inside a parametric thorax.

The way of a subject through the modules: ``anatomy`` draws its parameters, within what its ``sequences`` entry fixes;
``thorax`` and ``heart`` (whose outlines come from ``heart_shape``) paint the signal and the labels, ``scars`` what
late enhancement shows; ``subject`` puts these together. ``contours`` is the tool.

Lengths are in mm, measured from the heart's centre with ``x`` along ``W`` (anterior to posterior) and ``y`` along
``H`` (towards the diaphragm). Labels are 0 background, 1 right ventricle (RV), 2 left ventricular myocardium (MYO),
3 left ventricular cavity (LV).
"""

from .anatomy import GROUPS
from .heart import LABELS
from .subject import PHASES, SyntheticSubject, synthesize_late_enhancement, synthesize_subject

__all__ = ["GROUPS", "LABELS", "PHASES", "SyntheticSubject", "synthesize_late_enhancement", "synthesize_subject"]
