"""
Seeded generator of synthetic short-axis cardiac MR stacks, the project's embedded data set ("synthetic heart").

A subject is a pair of stacks, end-diastole (ED) and end-systole (ES), of a parametric heart inside a parametric
thorax. Every number in this package is a hand-chosen range; no image, mask or statistic of a patient is stored. The
difficulty comes from the anatomy: both blood pools have the same brightness, and so do the descending aorta, the
atria, the vessels and part of the fat; the myocardium is as dark as muscle, liver and the right ventricular wall.
A voxel's intensity alone therefore does not tell its class, while shape and position do.

:func:`write_synthetic_acdc` writes subjects as NIfTI files in the layout of the ACDC challenge. Labels are those of
ACDC: 0 background, 1 right ventricle (RV), 2 left ventricular myocardium (MYO), 3 left ventricular cavity (LV).

The way of a subject through the modules: ``anatomy`` draws its parameters, ``thorax`` and ``heart`` (whose outlines
come from ``heart_shape``) paint the signal and the labels, ``acquisition`` makes an image of the signal, ``subject``
puts these together, ``folder`` and ``write`` store the result; ``draws``, ``contours`` and ``painting`` are the tools.

Inside the package volumes have the axes ``(D, W, H)`` and lengths are in mm, measured from the heart's centre with
``x`` along ``W`` (anterior to posterior) and ``y`` along ``H`` (towards the diaphragm).
"""

from .anatomy import GROUPS
from .heart import LABELS
from .subject import GENERATOR_VERSION, PHASES, SyntheticSubject, synthesize_subject
from .write import MARKER_NAME, write_synthetic_acdc

__all__ = [
    "GENERATOR_VERSION",
    "GROUPS",
    "LABELS",
    "MARKER_NAME",
    "PHASES",
    "SyntheticSubject",
    "synthesize_subject",
    "write_synthetic_acdc",
]
