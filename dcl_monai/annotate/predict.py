"""What a trained model says of an image, on the image's own grid, and within what is known of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from monai.bundle import ConfigParser
from monai.data import MetaTensor
from monai.transforms import Compose, KeepLargestConnectedComponent
from nibabel.affines import voxel_sizes

from dcl_monai.candidates import candidate_sets, expand, known_positive
from dcl_monai.datalist import Item
from dcl_monai.inferers import predict_sets
from dcl_monai.networks import load_model, load_weights
from dcl_monai.transforms import LoadCandidatesd, LoadImagesd
from dcl_monai.transforms.drawings import slice_axis
from dcl_monai.utils import DataError
from dcl_monai.utils.files import file_hash


@dataclass(frozen=True)
class Prediction:
    """
    What models say of an image with m classes, on its own grid.

    Args:
        item: the image.
        probabilities: class probabilities, as if nothing were annotated, (m, H, W, D); zero for all classes outside
            the network's field of view.
        candidates: boolean candidate sets, (m, H, W, D).
        affine: of the image, (4, 4).
        models: the models whose mean it is, with their hashes.
        cross_fitted: whether none of them was trained on an image of this subject.
        single_parts: indices of the classes of which the models keep the largest part alone.
    """

    item: Item
    probabilities: torch.Tensor
    candidates: torch.Tensor
    affine: torch.Tensor
    models: dict[str, str]
    cross_fitted: bool
    single_parts: tuple[int, ...] = ()

    @property
    def drawn(self) -> torch.Tensor:
        """Voxels whose class is known, (H, W, D)."""
        return known_positive(self.candidates, dim=0).any(0)

    @property
    def slice_axis(self) -> int:
        """The axis along which the slices lie."""
        return slice_axis(self.candidates.shape[1:], voxel_sizes(self.affine.numpy()))

    def labels(self) -> torch.Tensor:
        """The segmentation as if nothing were annotated, class indices (H, W, D)."""
        found = self.probabilities.argmax(0, keepdim=True)
        if not self.single_parts:
            return found[0]
        keep = KeepLargestConnectedComponent(applied_labels=list(self.single_parts))
        return torch.as_tensor(keep(found))[0].long()

    def within_sets(self) -> torch.Tensor:
        """
        Class probabilities given that each voxel has a class of its candidate set, (m, H, W, D).

        Outside the field of view, and where the network excludes all candidates, it is background if that is a
        candidate; otherwise all candidates are equally likely.
        """
        allowed = self.probabilities * self.candidates
        total = allowed.sum(0, keepdim=True)
        fallback = self.candidates.float()
        fallback[1:] *= ~self.candidates[:1]
        return torch.where(total > 1e-6, allowed / total.clamp_min(1e-6), fallback / fallback.sum(0, keepdim=True))


class Predictor:
    """
    One model, run as its bundle's ``inference.json`` says.

    Args:
        bundle: folder of the bundle.
        model_file: the model.

    Raises:
        DataError: when the bundle or the model cannot be used.
    """

    def __init__(self, bundle: str | Path, model_file: str | Path) -> None:
        file = Path(bundle) / "configs" / "inference.json"
        if not file.is_file():
            raise DataError(f"{bundle}: is not a bundle: configs/inference.json is missing. Make one: dcl-monai new.")
        content = load_model(model_file)
        parser = ConfigParser()
        parser.read_config(str(file))
        parser["bundle_root"], parser["model_file"] = str(bundle), str(model_file)
        self.name, self.sha256 = str(model_file), file_hash(model_file)
        self.network = load_weights(parser.get_parsed_content("network"), content, model_file).eval()
        self.preprocessing = parser.get_parsed_content("preprocessing")
        self.postprocessing = parser.get_parsed_content("postprocessing")
        self.inferer = parser.get_parsed_content("inferer")
        self.device = parser.get_parsed_content("device")
        self.classes: list[str] = list(parser.get_parsed_content("classes"))
        names = parser.get_parsed_content("single_parts")
        self.single_parts = tuple(self.classes.index(name) for name in names)

    def __call__(self, image: str) -> torch.Tensor:
        """Class probabilities of an image, by its file, on its own grid (m, H, W, D)."""
        pixels = self.preprocessing({"image": image})["image"]
        if len(pixels) > 1:
            raise DataError(f"{image}: has {len(pixels)} frames, but an annotated image has one. List its frames.")
        mean, _ = predict_sets(self.network, self.inferer, pixels.as_tensor()[None].to(self.device))
        data = self.postprocessing({"image": pixels, "pred": MetaTensor(mean[0].cpu())})
        return torch.as_tensor(data["probabilities"]).as_subclass(torch.Tensor)


def load_candidates(item: Item, classes: Sequence[str]) -> MetaTensor:
    """What is known of an image on its own grid: boolean candidate sets (m, H, W, D), with the image's geometry."""
    data = _loader(tuple(classes))(dict(item))
    label = data["label"]
    return MetaTensor(expand(label[0].as_tensor(), candidate_sets(label), len(classes)), affine=data["image"].affine)


@cache
def _loader(classes: tuple[str, ...]) -> Compose:
    """Made once: MONAI's reader says at every start which decoders it lacks."""
    return Compose(
        [
            LoadImagesd(keys="image"),
            LoadCandidatesd(keys="label", num_classes=len(classes), classes=classes),
        ]
    )
