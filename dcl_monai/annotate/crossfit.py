"""Models that did not see an image: one for each fold of the subjects, trained once and kept in the bundle."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from dcl_monai.bundle.commands import command_of, find_overlay, run_command
from dcl_monai.data.cache import item_files
from dcl_monai.datalist import Datalist, Item, datalist_hash, fold_subjects, load_datalist, write_datalist
from dcl_monai.datalist.items import annotations_of
from dcl_monai.datalist.splits import SPLITS
from dcl_monai.inferers.report import stamp
from dcl_monai.utils import DataError
from dcl_monai.utils.files import file_hash, write_atomic

from .predict import Prediction, Predictor, load_candidates

logger = logging.getLogger(__name__)
VALIDATION = 5
"""One in so many of the subjects that a fold trains with chooses its model."""


class CrossFit:
    """
    Predictions of every image of a datalist by models that were not trained on it.

    The subjects with an annotation are divided into K folds. For each fold the bundle's ``train.json`` trains a model
    on the other subjects, one in five of which chooses the model. An image without any annotation is in no fold: all
    K models predict it, and their mean counts. So are test images: no model learns from them, so that what is made by
    these models can be tested on them. ``fast`` uses the bundle's own model for all images instead, which has seen some
    of them.

    The models are kept in the bundle, ``crossfit/<key>/fold_<k>/model.pt``. The key depends on the data and on the
    settings, so that they are trained once. A training that was interrupted goes on.

    Args:
        source: file that describes the data.
        bundle: folder of the bundle.
        folds: number of folds K.
        fast: whether to use the bundle's own model.
        words: options of the training, ids of ``train.json``.
        overlays: see :func:`dcl_monai.bundle.command_of`.
        seed: of the division.

    Raises:
        DataError: when data and bundle do not fit together.

    Example::

        crossfit = CrossFit("hearts.yaml", "hearts")
        crossfit.train()
        for item in crossfit.items:
            prediction = crossfit.predict(item)
            prediction.within_sets()  # (m, H, W, D)
    """

    def __init__(
        self,
        source: str | Path,
        bundle: str | Path,
        folds: int = 3,
        fast: bool = False,
        words: Sequence[str] = (),
        overlays: Sequence[str] = (),
        seed: int = 0,
    ) -> None:
        self.bundle = Path(bundle)
        self.datalist: Datalist = load_datalist(source)
        self.source, self.classes = str(source), self.datalist["classes"]
        self.words, self.overlays, self.seed = list(words), list(overlays), seed
        self.fast = fast
        self.items: list[Item] = [item for split in SPLITS for item in self.datalist[split]]
        self.annotated = [item for item in self.items if annotations_of(item)]
        learnt = [item for item in self.annotated if item not in self.datalist["test"]]
        number = len({item["subject"] for item in learnt})
        if not fast and not 2 <= folds <= number // 2:
            raise DataError(
                f"{source}: {number} subject(s) have an annotation, too few for {folds} folds of two or more (test "
                "subjects do not count). Choose 2 or more --folds, annotate more, or use the bundle's own model with "
                "--fast."
            )
        self.folds = 1 if fast else folds
        self.fold_of = {} if fast else fold_subjects(learnt, len(self.classes), folds, seed)
        command_of("train", self.bundle, self.words, self.overlays)  # refuses other folders, and misspelt options

    @cached_property
    def key(self) -> str:
        """Changes with all that the models depend on."""
        configs = [self.bundle / "configs" / "train.json", *map(find_overlay, self.overlays)]
        files = [file for item in self.annotated for file in item_files(item)]
        content = {
            "datalist": datalist_hash(self.datalist),
            "files": [[str(file), stamp(Path(file))] for file in files],
            "configs": [file_hash(config) for config in configs],
            "settings": [self.words, self.folds, self.seed],
        }
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:12]

    @property
    def cache(self) -> Path:
        """Folder of the models."""
        return self.bundle.resolve() / "crossfit" / self.key

    def model_file(self, fold: int) -> Path:
        """The model of a fold."""
        return self.bundle / "models" / "model.pt" if self.fast else self.cache / f"fold_{fold}" / "model.pt"

    def is_trained(self, fold: int) -> bool:
        """Whether the model of a fold is complete."""
        return self.model_file(fold).is_file() and (self.fast or self._mark(fold).is_file())

    def _mark(self, fold: int) -> Path:
        return self.cache / f"fold_{fold}" / "complete.json"

    def train(self) -> None:
        """Train the models that are missing; refuse models of other classes."""
        if self.fast:
            if not self.is_trained(0):
                raise DataError(f"{self.model_file(0)}: no such model. Train one: dcl-monai train {self.bundle}")
            logger.warning("--fast: the bundle's own model has seen some of these images. Its confidence is too high.")
        for fold in range(self.folds):
            if self.is_trained(fold):
                continue
            logger.info(f"fold {fold + 1} of {self.folds}: training, in {self.model_file(fold).parent}")
            listing = self.cache / f"fold_{fold}.json"
            write_datalist(self.training_list(fold), listing, absolute=True)
            paths = {"datalist": listing, "output_dir": listing.with_suffix(""), "model_file": self.model_file(fold)}
            words = [word for name, path in paths.items() for word in (f"--{name}", str(path))]
            code = run_command(
                command_of("train", self.bundle, [*self.words, *words, "--resume", "true"], self.overlays)
            )
            if code:
                raise DataError(
                    f"{self.bundle}: the training of fold {fold + 1} failed with exit code {code}; its output above "
                    "says why. Run the same command again to continue."
                )
            write_atomic(self._mark(fold), json.dumps({"sha256": file_hash(self.model_file(fold))}))
        self.predictor(0)  # a model of other classes is refused before anything is written

    def training_list(self, fold: int) -> Datalist:
        """What the model of a fold is trained on: all annotated subjects but those of the fold and of the test."""
        others = [item for item in self.annotated if self.fold_of.get(item["subject"], fold) != fold]
        part = fold_subjects(others, len(self.classes), VALIDATION, self.seed)
        return {
            **self.datalist,
            "training": [item for item in others if part[item["subject"]]],
            "validation": [item for item in others if not part[item["subject"]]],
            "test": [],
        }

    def predictor(self, fold: int) -> Predictor:
        """The model of a fold, loaded once."""
        loaded: dict[int, Predictor] = self.__dict__.setdefault("_predictors", {})
        if fold not in loaded:
            loaded[fold] = Predictor(self.bundle, self.model_file(fold))
            if loaded[fold].classes != self.classes:
                raise DataError(
                    f"{loaded[fold].name}: segments {', '.join(loaded[fold].classes)}, but {self.source} has "
                    f"{', '.join(self.classes)}. Use a bundle of these classes."
                )
        return loaded[fold]

    def predict(self, item: Item) -> Prediction:
        """Predict one of :attr:`items`."""
        fold = self.fold_of.get(item["subject"])
        chosen = [self.predictor(k) for k in (range(self.folds) if fold is None else [fold])]
        candidates = load_candidates(item, self.classes)
        mean = torch.stack([predictor(item["image"]) for predictor in chosen]).mean(0)
        return Prediction(
            item=item,
            probabilities=mean,
            candidates=candidates.as_tensor(),
            affine=candidates.affine,
            models={predictor.name: predictor.sha256 for predictor in chosen},
            cross_fitted=not self.fast,
            single_parts=chosen[0].single_parts,
        )

    def described(self) -> Mapping[str, Any]:
        """What the predictions depend on, for reports."""
        return {
            "datalist": {"file": self.source, "hash": datalist_hash(self.datalist)},
            "bundle": str(self.bundle.resolve()),
            "cross_fitted": not self.fast,
            "folds": self.folds,
            "models": {str(self.model_file(k)): file_hash(self.model_file(k)) for k in range(self.folds)},
        }
