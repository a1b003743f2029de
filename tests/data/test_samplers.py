"""Which items an epoch draws."""

from __future__ import annotations

import numpy as np
import torch
from ignite.engine import Events
from monai.engines import SupervisedTrainer

from dcl_monai.data import CandidateSampler, DrawSampler


class TestDrawSampler:
    def test_every_item_once_in_random_order(self):
        draws = list(DrawSampler(range(20)))
        assert sorted(draws) == list(range(20)) != draws

    def test_more_draws_than_items_are_further_draws_of_all(self):
        """All items come once before any comes again, under a number of its own."""
        draws = list(DrawSampler(range(5), num_samples=12))
        assert sorted(draws[:5]) == [0, 1, 2, 3, 4]
        assert sorted(draws[5:10]) == [5, 6, 7, 8, 9]
        assert len(set(draws)) == 12
        assert {draw // 5 for draw in draws[10:]} == {2}

    def test_fewer_draws_than_items(self):
        draws = list(DrawSampler(range(20), num_samples=6))
        assert len(set(draws)) == 6

    def test_ranks_share_the_draws_of_one_process(self):
        alone = list(DrawSampler(range(7), seed=1))
        ranks = [list(DrawSampler(range(7), seed=1, num_replicas=2, rank=rank)) for rank in range(2)]
        assert [draw for turn in zip(*ranks, strict=True) for draw in turn] == alone[:6]


class TestCandidateSampler:
    def make(self, **kwargs) -> CandidateSampler:
        """Ninety items that show class 0, and one each that shows class 1 and class 2."""
        zero = {"label": torch.zeros(1, 2), "sets": (0b001,)}
        one = {"label": torch.ones(1, 2), "sets": (0b101, 0b010)}
        two = {"label": torch.tensor([[0.0, 1.0]]), "sets": (0b111, 0b100)}
        return CandidateSampler([zero] * 90 + [one, two], 3, **kwargs)

    def test_rare_classes_are_drawn_often(self):
        counts = np.bincount([draw % 92 for draw in self.make(num_samples=3000)], minlength=92)
        # half of the draws choose a class first: a sixth of all draws each
        assert counts[90:].min() > 400
        assert counts[:90].min() > 0

    def test_no_draw_comes_twice(self):
        """Further draws of an item are numbered, so that each is augmented in its own way."""
        draws = list(self.make(num_samples=3000))
        assert len(set(draws)) == 3000
        repeats = sorted(draw // 92 for draw in draws if draw % 92 == 90)
        assert repeats == list(range(len(repeats)))

    def test_epochs_differ_and_repeat_with_the_seed(self):
        def epochs(seed: int) -> list[list[int]]:
            sampler = self.make(seed=seed)
            drawn = []
            for epoch in (1, 2):
                sampler.set_epoch(epoch)
                torch.manual_seed(epoch)  # of no account
                drawn.append(list(sampler))
            return drawn

        first = epochs(3)
        assert len(first[0]) == len(self.make()) == 92
        assert first[0] != first[1]
        assert epochs(3) == first != epochs(4)

    def test_ranks_share_the_draws_of_one_process(self):
        alone = self.make(num_samples=10)
        ranks = [list(self.make(num_samples=10, num_replicas=3, rank=rank)) for rank in range(3)]
        assert [len(draws) for draws in ranks] == [3, 3, 3]
        assert [draw for turn in zip(*ranks, strict=True) for draw in turn] == list(alone)[:9]

    def test_the_trainer_sets_its_epoch(self):
        """As of any DistributedSampler."""
        sampler = self.make()
        loader = torch.utils.data.DataLoader(range(10_000), sampler=sampler)
        network = torch.nn.Linear(1, 1)
        optimizer, more = torch.optim.SGD(network.parameters()), {"iteration_update": lambda *_: {}, "decollate": False}
        trainer = SupervisedTrainer("cpu", 3, loader, network, optimizer, torch.nn.L1Loss(), **more)
        seen = []
        trainer.add_event_handler(Events.EPOCH_STARTED, lambda _: seen.append(sampler.epoch))
        trainer.run()
        assert seen == [1, 2, 3]

    def test_unlabelled_items_alone(self):
        nothing = {"label": torch.zeros(1, 2), "sets": (0b111,)}
        assert {draw % 5 for draw in CandidateSampler([nothing] * 5, 3, num_samples=200)} == set(range(5))
