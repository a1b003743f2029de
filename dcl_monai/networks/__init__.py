"""CompNet, the network that is served, and the model file that carries it."""

from .compnet import CompNet
from .dclnet import DCLNet
from .model_file import bank_sizes, check_model, load_model, load_trained, load_weights, save_model
from .program import make_program, save_program
from .unet_plus import UNetPlus

__all__ = [
    "CompNet",
    "DCLNet",
    "UNetPlus",
    "bank_sizes",
    "check_model",
    "load_model",
    "load_trained",
    "load_weights",
    "make_program",
    "save_model",
    "save_program",
]
