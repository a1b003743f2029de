"""
Whole-heart volumes: a parametric heart with seven structures inside a parametric thorax.

The way of a subject through the modules: ``anatomy`` draws its parameters, ``heart_shape`` composes the outlines of
the heart from the solids of ``fields``, ``thorax`` and ``heart`` paint the signal, ``heart`` fills in the labels, and
``subject`` puts these together in an image.

Lengths are in mm. Both the body's and the heart's coordinates point to the left (``x``, along ``W``), back (``y``,
along ``H``) and up (``z``, along ``D``); the heart is turned, scaled and smoothly deformed within the body. Labels are
0 background, 1 left ventricle (LV), 2 its myocardium (MYO), 3 right ventricle (RV), 4 left atrium (LA), 5 right atrium
(RA), 6 ascending aorta (AO, from its valve to the level of the pulmonary bifurcation), 7 pulmonary artery (PA, from
its valve to the bifurcation).
"""

from .heart import LABELS
from .subject import synthesize_whole_heart

__all__ = ["LABELS", "synthesize_whole_heart"]
