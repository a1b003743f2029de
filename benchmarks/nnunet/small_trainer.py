"""nnU-Net's trainer with a budget for a CPU; found by nnU-Net through ``nnUNet_extTrainer``."""

from __future__ import annotations

import json
import time
from pathlib import Path

import torch
from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer

torch.set_num_threads(1)  # nnU-Net takes all cores of a CPU, which wait for each other when others use them


class nnUNetTrainerSmall(nnUNetTrainer):  # nnU-Net's way of writing
    """30 epochs of 75 steps. Keeps some epochs, with the processor's time until then, and leaves out the last test."""

    KEPT = (6, 12, 30)

    def __init__(self, plans: dict, configuration: str, fold: int, dataset_json: dict, device: torch.device) -> None:
        super().__init__(plans, configuration, fold, dataset_json, device)  # reads these names
        self.num_epochs, self.num_iterations_per_epoch, self.num_val_iterations_per_epoch = 30, 75, 2

    def on_epoch_end(self) -> None:
        super().on_epoch_end()
        if self.current_epoch in self.KEPT:  # counts from one here
            self.save_checkpoint(f"{self.output_folder}/checkpoint_{self.current_epoch}.pth")
            path = Path(self.output_folder) / "seconds.json"
            seconds = json.loads(path.read_text()) if path.is_file() else {}
            path.write_text(json.dumps(seconds | {str(self.current_epoch): time.process_time()}))

    def perform_actual_validation(self, save_probabilities: bool = False) -> None:
        """The test patients are predicted by the benchmark."""
