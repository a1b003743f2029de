"""Deep Compatible Learning (DCL) for partially-supervised medical image segmentation, on MONAI.

The rooms are MONAI's own: ``transforms``, ``data``, ``losses``, ``networks``, ``engines``, ``handlers``, ``inferers``,
``metrics`` and ``visualize``; beside them ``datalist`` (what a user says about data), ``check`` (reads it all once),
``conditions`` (the paper's conditional idea), ``bundle`` (the model file) and ``synthetic`` (hearts to try it on).
Imports go down only, as ``[tool.importlinter]`` in ``pyproject.toml`` states. Equation numbers in the docstrings are
those of Zhang and Zhuang, "Deep Compatible Learning for Partially-Supervised Medical Image Segmentation";
``docs/concepts/equations.md`` maps each of them to its code.
"""

__version__ = "0.2.0"
