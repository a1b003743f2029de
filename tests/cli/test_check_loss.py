from __future__ import annotations

import re

import pytest
import torch

from dcl_monai.cli import main
from dcl_monai.losses import CompatibleLoss, ConventionalCELoss, IgnoreDiceCELoss
from dcl_monai.losses.compatibility import find_counterexample, is_indifferent

MODULE = """
import torch

def marginal(logits, candidates):
    return -torch.where(candidates, logits.log_softmax(1), -torch.inf).logsumexp(1).mean()

def drawn_or_background(logits, candidates):
    known = candidates.sum(1) == 1
    return torch.nn.functional.cross_entropy(logits, torch.where(known, candidates.int().argmax(1), 0))

def constant(logits, candidates):
    return 0 * logits.sum()

def wrong_shape(logits, candidates):
    return logits.reshape(7, 7)

class Weighted(torch.nn.Module):
    def __init__(self, num_classes, weight):
        super().__init__()
        self.weight = weight

    def forward(self, logits, candidates):
        return self.weight * marginal(logits, candidates)

number = 3
"""


@pytest.fixture
def own(tmp_path, monkeypatch, request):
    """A module in the working directory, under a name of its own, since Python remembers modules."""
    name = f"my_losses_{abs(hash(request.node.name))}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def test_compatible(own, capsys):
    assert main(["check-loss", f"{own}:marginal", "--trials", "1"]) == 0
    assert "no counterexample" in capsys.readouterr().out


def test_not_compatible(own, capsys):
    """Ordinary cross entropy, with everything that nobody drew as background."""
    assert main(["check-loss", f"{own}:drawn_or_background", "--trials", "5"]) == 1
    text = capsys.readouterr().out
    assert "is NOT compatible" in text
    assert "an image of 1x1 voxel(s)" in text, "the smallest counterexample"
    assert "true class" in text


def test_class_with_arguments(own, capsys):
    assert main(["check-loss", f"{own}:Weighted", "--arguments", '{"weight": 2}', "--trials", "2"]) == 0
    assert main(["check-loss", f"{own}:Weighted", "--arguments", '{"weight": -1}', "--trials", "2"]) == 1
    assert main(["check-loss", f"{own}:Weighted"]) == 1
    assert "cannot be made of {'num_classes': 4}" in capsys.readouterr().err


def test_indifferent(own, capsys):
    assert main(["check-loss", f"{own}:constant", "--trials", "2"]) == 0
    assert "so it teaches nothing" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["{own}"], "write MODULE:NAME"),
        (["no_such_module:Loss"], r"cannot be imported \(ModuleNotFoundError"),
        (["{own}:Nothing"], "has no loss 'Nothing'; it has marginal"),
        (["{own}:number"], "has no loss 'number'"),
        (["{own}:wrong_shape"], "failed on logits"),
        (["{own}:Weighted", "--arguments", "[1"], "is not a JSON object"),
        (["{own}:marginal", "--num_classes", "1"], "--num_classes 1"),
    ],
)
def test_mistakes_are_one_line(own, capsys, words, message):
    assert main(["check-loss", *(word.replace("{own}", own) for word in words)]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert re.search(message, error)


@pytest.mark.parametrize("loss", [CompatibleLoss(4, "mmee"), CompatibleLoss(4, "ce", averaging="sum")])
def test_own_losses_are_compatible(loss):
    assert find_counterexample(loss, trials=1) is None
    assert not is_indifferent(loss)


def test_ignoring_is_compatible():
    assert find_counterexample(IgnoreDiceCELoss(4), trials=1) is None


def test_counterexample_of_conventional_ce_is_the_even_guess():
    """Proposition 1."""
    found = find_counterexample(ConventionalCELoss(4), trials=5)
    assert found is not None
    assert found.loss_at_prediction < found.loss_at_truth
    assert found.candidates.gather(1, found.truth.unsqueeze(1)).all(), "the truth is among the candidates"
    loss = ConventionalCELoss(4)
    again = loss(found.prediction.clamp_min(1e-30).log(), found.candidates)
    assert float(again) == pytest.approx(found.loss_at_prediction, rel=1e-3)


def test_a_loss_that_is_no_number_at_the_truth():
    def broken(logits, candidates):
        return torch.log(1 - logits.softmax(1).amax()) * 0 + logits.sum() * 0

    found = find_counterexample(broken, trials=1)
    assert found is not None
    assert found.loss_at_truth != found.loss_at_truth
