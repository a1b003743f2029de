"""CompNet, its conditional bank, and the network that is served."""

from .bank import ConditionBank, SimilarityRule
from .compnet import CompNet
from .dclnet import DCLNet
from .unet_plus import UNetPlus

__all__ = ["CompNet", "ConditionBank", "DCLNet", "SimilarityRule", "UNetPlus"]
