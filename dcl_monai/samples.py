"""What an item of a datalist becomes on its way to the network: a volume, samples of it, and batches of these.

Each is a dictionary with typed keys, since MONAI's data sets, transforms and engines pass plain dictionaries on. The
loss functions take the tensors of a batch one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

import torch
from typing_extensions import Required


class Volume(TypedDict):
    """An image and what is known of it, as the preprocessing leaves them; the other entries of the item stay."""

    image: torch.Tensor
    """Grey values, (C, H, W, D)."""
    label: torch.Tensor
    """Codes of candidate sets, (1, H, W, D); its metadata holds their table, see :mod:`dcl_monai.candidates`."""
    subject: str
    """Who it is."""


class Sample(TypedDict):
    """One piece of a volume, a slice or a patch, or an image of a conditional bank: plain tensors, without metadata."""

    image: torch.Tensor
    """Grey values, (C, \\*spatial)."""
    label: torch.Tensor
    """Codes of candidate sets, (1, \\*spatial)."""
    sets: Sequence[int]
    """The candidate set of every code, as bits."""
    subject: str
    """Who it is: conditions are images of other subjects."""


class Batch(TypedDict, total=False):
    """
    What :class:`~dcl_monai.data.ConditionalDataset` gives and :class:`~dcl_monai.engines.DCLTrainer` takes.

    The shapes are those of a batch; an item of the data set has no B. There are m classes, and class j has the channels
    j C to (j + 1) C - 1 of ``cond_image``. Only image and label are always there.
    """

    image: Required[torch.Tensor]
    """The target, BC[HWD]."""
    label: Required[torch.Tensor]
    """Its candidate sets, boolean Bm[HWD]."""
    cond_image: torch.Tensor
    """A conditional image of every class, B(mC)[HWD]."""
    cond_mask: torch.Tensor
    """Where the condition of class j is known to be j, boolean Bm[HWD]; in the dual pass a probability."""
    cond_known: torch.Tensor
    """Where it is known whether the condition of class j is j, boolean Bm[HWD]."""
    dual_class: torch.Tensor
    """Class s of the closed loop, int64 (B,); like all of ``dual_*``, it is missing in plain epochs."""
    dual_image: torch.Tensor
    """The condition of class s, which becomes the target of the dual pass, BC[HWD]."""
    dual_label: torch.Tensor
    """Its candidate sets, boolean Bm[HWD]."""
    dual_apart: torch.Tensor
    """Classes whose conditions are not of the dual target's subject, boolean Bm."""
    plain_image: torch.Tensor
    """The target before its augmentation, BC[HWD]; ``plain_*`` is there if the transform of the data set keeps it."""
    plain_grid: torch.Tensor
    """Where each voxel of the target comes from: coordinates, in the last channels, that were moved with the image."""
    plain_cond_image: torch.Tensor
    """The conditional images before their augmentation, B(mC)[HWD]."""
    plain_cond_mask: torch.Tensor
    """Their masks, boolean Bm[HWD]."""
