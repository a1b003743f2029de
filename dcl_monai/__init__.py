"""Deep Compatible Learning (DCL) for partially-supervised medical image segmentation, on MONAI.

The rooms are MONAI's own: ``data``, ``transforms``, ``losses``, ``networks``, ``engines``, ``handlers`` and
``metrics``. Equation numbers in the docstrings are those of Zhang and Zhuang, "Deep Compatible Learning for
Partially-Supervised Medical Image Segmentation"; ``docs/equations.md`` maps each of them to its code.
"""

__version__ = "0.1.0"
