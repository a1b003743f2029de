"""
Seeded generators of synthetic cardiac MR, the project's embedded data sets ("synthetic hearts").

Every number in this package is a hand-chosen range; no image, mask or statistic of a patient is stored. The difficulty
comes from the anatomy: all blood pools have the same brightness, and so do the vessels around the heart; the
myocardium is as dark as other muscle, and its scars are as bright as blood. A voxel's intensity alone therefore does
not tell its class, while shape and position do.

==============================  =====================================  ======================
writer                          images                                 layout of the challenge
==============================  =====================================  ======================
:func:`write_synthetic_acdc`    cine short-axis stacks, two phases     ACDC
:func:`write_synthetic_mscmr`   late-enhancement short-axis stacks     MSCMR
:func:`write_synthetic_mmwhs`   whole-heart volumes                    MM-WHS
==============================  =====================================  ======================

The subjects come from ``short_axis`` and ``whole_heart``; both use ``draws``, ``painting``, ``acquisition`` and
``volume``. The writers ``acdc`` and ``pairs`` (MSCMR and MM-WHS) say where files lie, and ``dataset`` keeps a
folder of them complete. Inside the package volumes have the axes ``(D, W, H)``.

``scribbles`` makes synthetic annotations: strokes, drawn inside the full masks of any data set.
"""

from .acdc import write_synthetic_acdc
from .dataset import MARKER_NAME
from .pairs import write_synthetic_mmwhs, write_synthetic_mscmr

__all__ = ["MARKER_NAME", "write_synthetic_acdc", "write_synthetic_mmwhs", "write_synthetic_mscmr"]
