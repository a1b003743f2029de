"""The count of memory, against numbers counted by hand and against real tensors."""

from __future__ import annotations

import copy

import pytest
import torch
from helpers import PLANNED_NET

from dcl_monai.networks import CompNet
from dcl_monai.planning.memory import PROCESS, PeakMemory, counted_bytes, make_batch, step, training_bytes

NETWORK = PLANNED_NET | {"num_classes": 3}
SIZE = (16, 16, 8)
NOISE = 0.05
"""The order in which autograd lets go of tensors varies: one or two of the smallest, about 1% of these steps."""


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_peak_by_hand(device):
    with PeakMemory() as meter:
        a = torch.zeros(1000, device=device)  # 4000 bytes
        b = a.view(10, 100)[2:]  # the same storage
        c = a + 1
        assert (meter.live, meter.peak) == (8000, 8000)
        del a, b
        assert (meter.live, meter.peak) == (4000, 8000)
        d = c.half()
        assert meter.live == 6000
        del c, d
    assert (meter.live, meter.peak) == (0, 8000)


def test_counts_without_content_what_real_tensors_take():
    peaks = {}
    for device in ("cpu", "meta"):
        with torch.device(device):
            primnet = CompNet(**NETWORK)
            dualnet = copy.deepcopy(primnet).eval().requires_grad_(False)
            with PeakMemory() as meter:
                step(primnet, dualnet, make_batch(3, SIZE, 2))
        peaks[device] = meter.peak
    assert peaks["meta"] == pytest.approx(peaks["cpu"], rel=NOISE)


def test_grows_with_the_batch():
    one, two, four = (counted_bytes(NETWORK, SIZE, batch, 0, False) for batch in (1, 2, 4))
    assert four - two == pytest.approx(2 * (two - one), rel=NOISE)
    assert two > 1.5 * one


def test_parts():
    base = counted_bytes(NETWORK, SIZE, 2, 0, False)
    bank = 3 * 700 * 16 * 16 * 8 * 5
    assert counted_bytes(NETWORK, SIZE, 2, 700, False) - base == pytest.approx(bank, rel=0.01)
    assert 0.4 * base < counted_bytes(NETWORK, SIZE, 2, 0, True) < 0.8 * base  # the loss stays in 32 bits
    more = NETWORK | {"num_classes": 8}
    assert counted_bytes(more, SIZE, 2, 0, False) > 1.3 * base


def test_a_process_takes_more_than_its_tensors():
    assert training_bytes(NETWORK, SIZE, 2, 0, "cpu") > PROCESS + counted_bytes(NETWORK, SIZE, 2, 0, False)
    assert training_bytes(NETWORK, SIZE, 2, 0, "cuda") < training_bytes(NETWORK, SIZE, 2, 0, "cpu")
