from __future__ import annotations

import pytest
import torch

from dcl_monai.engines import TwoStageLR


def rates(steps: int, **kwargs: object) -> list[float]:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.01)
    schedule = TwoStageLR(optimizer, stage1_steps=10, stage2_steps=12, stage2_lr=1e-4, **kwargs)
    values = []
    for _ in range(steps):
        values.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return values


def test_paper_is_constant_in_both_stages():
    assert rates(14, cosine=False) == pytest.approx([0.01] * 10 + [1e-4] * 4)


def test_warm_up_then_cosine_in_both_stages():
    values = rates(24, warmup_steps=2)
    assert values[:3] == pytest.approx([0.005, 0.01, 0.01])
    assert values[6] == pytest.approx(0.005)
    assert values[2:10] == sorted(values[2:10], reverse=True)
    assert values[10:13] == pytest.approx([0.5e-4, 1e-4, 1e-4])
    assert values[17] == pytest.approx(0.5e-4)
    assert values[12:22] == sorted(values[12:22], reverse=True)
    assert values[22:] == pytest.approx([0.0, 0.0])


def test_resumed_course_is_the_same():
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.01)
    first = TwoStageLR(optimizer, 10, 12, 1e-4, warmup_steps=2)
    for _ in range(5):
        optimizer.step()
        first.step()
    other = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.01)
    second = TwoStageLR(other, 10, 12, 1e-4, warmup_steps=2)
    second.load_state_dict(first.state_dict())
    other.load_state_dict(optimizer.state_dict())
    for _ in range(7):
        for o, s in ((optimizer, first), (other, second)):
            o.step()
            s.step()
        assert other.param_groups[0]["lr"] == optimizer.param_groups[0]["lr"]
