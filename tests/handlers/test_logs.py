from __future__ import annotations

import torch
from monai.engines import SupervisedTrainer
from torch.utils.tensorboard import SummaryWriter

from dcl_monai.handlers import TensorBoard


def test_losses_are_written_every_tenth_iteration(tmp_path, monkeypatch):
    """Every number that is written waits for the device."""
    steps = []
    monkeypatch.setattr(SummaryWriter, "add_scalar", lambda self, tag, value, step, *_, **__: steps.append(step))
    network = torch.nn.Linear(1, 1)
    batch = {"image": torch.ones(1, 1), "label": torch.ones(1, 1)}
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    trainer = SupervisedTrainer("cpu", 1, [batch] * 25, network, optimizer, torch.nn.MSELoss(), decollate=False)
    TensorBoard(str(tmp_path)).attach(trainer)
    trainer.run()
    assert set(steps) == {10, 20}
