"""The paper's conditional idea: images with a mask of each class, shown to the network beside the target.

- :class:`SimilarityRule` picks the condition of a target; training and service run the same rule.
- :class:`ConditionBank` holds the images that travel inside the model, and can shift the rule's choice, which is how
  conditions are shuffled (:class:`dcl_monai.handlers.ShuffleConditions`, :func:`dcl_monai.inferers.predict_sets`).
- :func:`fill_bank` chooses the bank's images from the training set.
- :class:`BankDataset` gives them back as training items when a served model learns on.

Training picks its conditions from the training set itself: :class:`dcl_monai.data.ConditionalDataset`.
"""

from .bank import ConditionBank, SimilarityRule
from .filling import fill_bank
from .rehearsal import BankDataset

__all__ = ["BankDataset", "ConditionBank", "SimilarityRule", "fill_bank"]
