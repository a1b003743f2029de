"""Tests of targets with their conditions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from monai.data import DataLoader, MetaTensor, get_track_meta
from monai.transforms import Compose, CopyItemsd, RandAffined, RandGaussianNoised, ScaleIntensityd

from dcl_monai.candidates import annotated_classes, candidate_sets, expand, known_positive
from dcl_monai.conditions import SimilarityRule
from dcl_monai.data import ConditionalDataset, SliceDataset
from dcl_monai.transforms import EncodeCandidates
from dcl_monai.utils import DataError

M = 3
SIZE = (16, 18)
KEYS = ["image", "label", "cond_image", "cond_label"]
MODES = ["bilinear", "nearest", "bilinear", "nearest"]


def make_item(subject: str, annotated=None, seed: int = 0, values=None, channels: int = 1, **encoding):
    """An image of random numbers, which tell it from every other, and its coded label."""
    generator = torch.Generator().manual_seed(seed)
    image = torch.randn(channels, *SIZE, generator=generator)
    if values is None:
        values = torch.randint(0, M, (1, *SIZE), generator=generator)
    label = EncodeCandidates(M, **encoding)(values, annotated)
    sets = candidate_sets(label)
    return {"image": image, "label": label.as_tensor(), "sets": sets, "subject": subject, "values": values}


def partial_items(**kwargs):
    """Six subjects of two images each; every class is annotated in two of them."""
    return [make_item(f"s{s}", [s % M], seed=10 * s + k, **kwargs) for s in range(6) for k in range(2)]


def which(items, image: torch.Tensor) -> int:
    """The index of the item that an image belongs to."""
    found = [index for index, item in enumerate(items) if torch.equal(item["image"], image)]
    assert len(found) == 1
    return found[0]


def affine(keys, modes, **more) -> RandAffined:
    return RandAffined(
        keys, prob=1.0, rotate_range=0.5, translate_range=[3, 3], mode=modes, padding_mode="zeros", **more
    )


def equal(a, b) -> bool:
    return set(a) == set(b) and all(torch.equal(torch.as_tensor(a[key]), torch.as_tensor(b[key])) for key in a)


class TestConditions:
    @pytest.mark.parametrize("pool", [1, 3, 16])
    def test_other_subject_and_annotated(self, pool):
        items = partial_items()
        dataset = ConditionalDataset(items, M, pool=pool)
        for epoch in range(3):
            dataset.set_epoch(epoch)
            for index, target in enumerate(items):
                data = dataset[index]
                for j in range(M):
                    condition = items[which(items, data["cond_image"][j : j + 1])]
                    assert condition["subject"] != target["subject"]
                    assert j in annotated_classes(condition["sets"], M)

    def test_form(self):
        data = ConditionalDataset(partial_items(channels=2), M)[0]
        assert {key: tuple(value.shape) for key, value in data.items() if key != "dual_class"} == {
            "image": (2, *SIZE),
            "label": (M, *SIZE),
            "cond_image": (2 * M, *SIZE),
            "cond_mask": (M, *SIZE),
            "cond_known": (M, *SIZE),
            "dual_image": (2, *SIZE),
            "dual_label": (M, *SIZE),
            "dual_apart": (M,),
        }
        assert all(data[key].dtype == torch.bool for key in ("label", "cond_mask", "cond_known", "dual_label"))
        assert all(type(value) is torch.Tensor for key, value in data.items() if key != "dual_class")

    def test_target(self):
        items = partial_items()
        dataset = ConditionalDataset(items, M)
        assert len(dataset) == len(items)
        for index in (0, 3, 11):
            data, item = dataset[index], items[index]
            assert torch.equal(data["image"], item["image"])
            assert torch.equal(data["label"], expand(item["label"][0], item["sets"], M))

    def test_nearest_of_a_large_pool(self):
        """With all images to choose from, the rule picks the most similar, in every epoch."""
        items = partial_items()
        dataset = ConditionalDataset(items, M, pool=100)
        described = torch.cat([SimilarityRule().describe(item["image"][None]) for item in items])
        for epoch in range(2):
            dataset.set_epoch(epoch)
            for index, target in enumerate(items):
                similarity = described @ described[index]
                for j in range(M):
                    allowed = [
                        k for k, item in enumerate(items) if item["subject"] != target["subject"] and k // 2 % M == j
                    ]
                    best = max(allowed, key=lambda k: float(similarity[k]))
                    assert which(items, dataset[index]["cond_image"][j : j + 1]) == best

    def test_plain_epochs_load_no_conditions(self):
        items = partial_items()
        read: list[int] = []

        class Watched(list):
            def __getitem__(self, index):
                read.append(index)
                return super().__getitem__(index)

        usual, plain = ConditionalDataset(items, M), ConditionalDataset(Watched(items), M, plain_epochs=2)
        for epoch in (1, 2, 3):
            usual.set_epoch(epoch)
            plain.set_epoch(epoch)
            for index in range(len(items)):
                read.clear()
                shown, blank = usual[index], plain[index]
                assert (read == [index]) == (epoch < 3)
                for key in ("cond_image", "cond_mask", "cond_known"):
                    assert shown[key].any()
                    assert bool(blank[key].any()) == (epoch == 3)
                    assert (shown[key].shape, shown[key].dtype) == (blank[key].shape, blank[key].dtype)
                assert ("dual_class" in blank) == (epoch == 3)
                for key in ("image", "label"):
                    assert torch.equal(shown[key], blank[key])

    def test_plain_image_is_handed_on(self):
        items = partial_items()
        assert "plain_image" not in ConditionalDataset(items, M)[0]
        names = ["plain_image", "plain_grid"]
        changed = Compose([CopyItemsd("image", 2, names), ScaleIntensityd("image", minv=5.0, maxv=6.0)])
        item = ConditionalDataset(items, M, transform=changed)[0]
        assert torch.equal(item["plain_image"], items[0]["image"])
        assert torch.equal(item["plain_grid"], items[0]["image"])
        assert item["image"].min() >= 5.0

    def test_conditions_before_the_transform(self):
        """DualNet fills by the unmoved image, so it is shown unmoved conditions."""
        items = partial_items()
        copied = CopyItemsd("image", 2, ["plain_image", "plain_grid"])
        dataset = ConditionalDataset(items, M, transform=Compose([copied, affine(KEYS, MODES)]))
        assert "plain_cond_image" not in ConditionalDataset(items, M, transform=affine(KEYS, MODES))[0]
        for index in range(4):
            data = dataset[index]
            for j in range(M):
                condition = items[which(items, data["plain_cond_image"][j : j + 1])]
                assert torch.equal(data["plain_cond_mask"][j], condition["values"][0] == j)
            assert not torch.equal(data["plain_cond_image"], data["cond_image"])

    @pytest.mark.parametrize(("annotated", "subjects"), [((0, 1), 6), ((0, 1, 2), 4)])
    @pytest.mark.parametrize("pool", [1, 16])
    def test_no_condition_of_the_dual_targets_subject(self, annotated, subjects, pool):
        """Several classes per subject: the dual target would be shown its own image with another class."""
        items = [
            make_item(f"s{s}", [(s + k) % M for k in range(len(annotated))], seed=10 * s + n)
            for s in range(subjects)
            for n in range(2)
        ]
        dataset = ConditionalDataset(items, M, pool=pool)
        for epoch in range(5):
            dataset.set_epoch(epoch)
            for index, target in enumerate(items):
                data = dataset[index]
                assert data["dual_apart"].all()
                shown = [items[which(items, data["cond_image"][j : j + 1])]["subject"] for j in range(M)]
                dual = shown.pop(data["dual_class"])
                assert target["subject"] not in (dual, *shown)
                assert dual not in shown

    def test_a_condition_that_has_to_be_of_its_subject_is_marked(self):
        """Two subjects beside the target, each with every class: the dual target's conditions are of the other one."""
        items = [make_item("a", seed=1), make_item("b", seed=2)]
        data = ConditionalDataset(items, M)[0]
        assert data["dual_apart"].tolist() == [j == data["dual_class"] for j in range(M)]

    def test_candidate_sets_are_expanded_for_target_and_dual_target_alone(self, monkeypatch):
        """Of 64 classes, 64 labels of 64 rows each took 7.7 s and 458 MB an item."""
        calls = []
        monkeypatch.setattr("dcl_monai.data.conditional.expand", lambda *args: calls.append(1) or expand(*args))
        ConditionalDataset(partial_items(), M)[0]
        assert len(calls) == 2

    def test_pool_of_one_is_random(self):
        """The paper's random condition: every allowed image comes up."""
        items = partial_items()
        dataset = ConditionalDataset(items, M, pool=1)
        seen = set()
        for epoch in range(40):
            dataset.set_epoch(epoch)
            seen.add(which(items, dataset[0]["cond_image"][1:2]))
        assert seen == {2, 3, 8, 9}  # the images of the two subjects that show class 1

    def test_annotated_but_absent_is_a_condition(self):
        """Class 2 is annotated in b and c, though it is not there: the mask is empty, and that is known."""
        values = torch.zeros(1, *SIZE, dtype=torch.int64)
        items = [make_item("a", seed=1), make_item("b", seed=2, values=values), make_item("c", [2], 3, values)]
        dataset = ConditionalDataset([*items, make_item("d", seed=4)], M)
        for epoch in range(40):
            dataset.set_epoch(epoch)
            data = dataset[0]
            if any(torch.equal(data["cond_image"][2:], item["image"]) for item in items[1:]):
                break
        else:
            pytest.fail("b and c are never shown")
        assert not data["cond_mask"][2].any()
        assert data["cond_known"][2].all()

    def test_unconditional(self):
        """Without conditions a single subject is enough."""
        dataset = ConditionalDataset([make_item("a", [1])], M, conditional=False)
        assert set(dataset[0]) == {"image", "label"}


class TestMasks:
    def test_partial(self):
        items = partial_items()
        dataset = ConditionalDataset(items, M)
        for index in range(len(items)):
            data = dataset[index]
            for j in range(M):
                condition = items[which(items, data["cond_image"][j : j + 1])]
                assert torch.equal(data["cond_mask"][j], condition["values"][0] == j)
                assert data["cond_known"][j].all()

    def test_scribbles(self):
        """On a stroke of another class it is known that the voxel is not j; off all strokes nothing is."""
        generator = torch.Generator().manual_seed(0)
        items = []
        for s in range(3):
            values = torch.randint(0, M + 2, (1, *SIZE), generator=generator).clamp_max(M)
            items.append(make_item(f"s{s}", seed=s, values=values, unlabelled=M))
        dataset = ConditionalDataset(items, M)
        for index in range(3):
            data = dataset[index]
            for j in range(M):
                values = items[which(items, data["cond_image"][j : j + 1])]["values"][0]
                assert torch.equal(data["cond_mask"][j], values == j)
                assert torch.equal(data["cond_known"][j], values != M)

    def test_slices_without_strokes_are_no_conditions(self):
        """A slice nobody drew in says nothing of a class, though other slices of its volume show it."""
        volumes = []
        for s in range(3):
            values = torch.full((1, *SIZE, 4), M)
            values[0, 2:5, :, 0] = 0
            values[0, 6:9, :, 0] = 1
            values[0, 10:13, :, 0] = 2
            image = torch.randn(1, *SIZE, 4, generator=torch.Generator().manual_seed(s))
            label = EncodeCandidates(M, unlabelled=M)(values)
            volumes.append({"image": image, "label": label, "subject": f"s{s}"})
        dataset = ConditionalDataset(SliceDataset(volumes), M, pool=1)
        for index in range(len(dataset)):
            assert dataset[index]["cond_mask"].flatten(1).any(1).all()

    def test_dual_label_is_that_of_the_picked_condition(self):
        items = partial_items()
        dataset = ConditionalDataset(items, M)
        classes = set()
        for epoch in range(3):
            dataset.set_epoch(epoch)
            for index in range(len(items)):
                data = dataset[index]
                s = int(data["dual_class"])
                condition = items[which(items, data["cond_image"][s : s + 1])]
                assert torch.equal(data["dual_label"], expand(condition["label"][0], condition["sets"], M))
                classes.add(s)
        assert classes == {0, 1, 2}


class TestRandomness:
    def dataset(self, seed=0, **kwargs):
        transform = Compose([affine(KEYS, MODES), RandGaussianNoised("image", prob=1.0)])
        return ConditionalDataset(partial_items(), M, pool=2, transform=transform, seed=seed, **kwargs)

    def test_depends_on_seed_epoch_and_index_alone(self):
        one, other = self.dataset(), self.dataset()
        for index in (0, 1, 5):
            one[index]  # what was drawn before must not matter
        torch.manual_seed(7)
        np.random.seed(7)
        assert equal(one[5], other[5])
        assert not equal(one[5], one[4])

    def test_further_draws_of_an_item_differ(self):
        dataset = self.dataset()
        draws = [dataset[5 + repeat * len(dataset)] for repeat in range(3)]
        assert not any(torch.equal(draws[a]["image"], draws[b]["image"]) for a, b in [(0, 1), (0, 2), (1, 2)])
        plain = ConditionalDataset(partial_items(), M)
        assert torch.equal(plain[5]["image"], plain[5 + 2 * len(plain)]["image"])

    def test_epochs_differ(self):
        dataset = self.dataset()
        first = dataset[5]
        dataset.set_epoch(1)
        assert not torch.equal(dataset[5]["image"], first["image"])
        dataset.set_epoch(0)
        assert equal(dataset[5], first)

    def test_seeds_differ(self):
        assert not torch.equal(self.dataset(seed=1)[5]["image"], self.dataset(seed=2)[5]["image"])

    @pytest.mark.parametrize("persistent", [False, True])
    def test_workers_do_not_matter(self, persistent):
        """Neither their number nor, for workers that live on, the epoch."""
        alone, shared = self.dataset(), self.dataset()
        loaders = [
            DataLoader(alone, batch_size=4),
            DataLoader(shared, batch_size=4, num_workers=2, persistent_workers=persistent),
        ]
        for epoch in range(2):
            alone.set_epoch(epoch)
            shared.set_epoch(epoch)
            batches = [list(loader) for loader in loaders]
            assert len(batches[0]) == len(batches[1]) == 3
            assert all(equal(a, b) for a, b in zip(*batches, strict=True))


class TestAugmentation:
    def twins(self, transform):
        """Three subjects with one image: target and conditions are the same before the transform."""
        item = make_item("a", seed=4)
        items = [item | {"subject": subject} for subject in "abc"]
        return item, ConditionalDataset(items, M, transform=transform)

    def test_together(self):
        item, dataset = self.twins(Compose([affine(KEYS, MODES)]))
        for index in range(3):
            data = dataset[index]
            assert not torch.allclose(data["image"], item["image"])
            for j in range(M):
                torch.testing.assert_close(data["cond_image"][j], data["image"][0])
            assert torch.equal(data["cond_mask"], known_positive(data["label"], dim=0))
            assert torch.equal(data["dual_label"], data["label"])

    def test_apart(self):
        transform = Compose([affine(KEYS[:2], MODES[:2]), affine(KEYS[2:], MODES[2:])])
        item, dataset = self.twins(transform)
        data = dataset[0]
        assert not torch.allclose(data["cond_image"][:1], data["image"])
        assert not torch.allclose(data["cond_image"][:1], item["image"])
        for j in range(M):  # image and mask of a condition still belong together
            torch.testing.assert_close(data["cond_image"][j], data["cond_image"][0])
        assert torch.equal(data["cond_mask"], known_positive(data["dual_label"], dim=0))
        assert not torch.equal(data["cond_mask"], known_positive(data["label"], dim=0))

    @pytest.mark.parametrize(
        ("annotated", "outside"), [(None, [1, 0, 0]), ([0], [1, 0, 0]), ([1], [1, 0, 1]), ([1, 2], [1, 0, 0])]
    )
    def test_voxels_from_outside(self, annotated, outside):
        """What the transform brings in holds the set of the outside, for the target and for the conditions."""
        values = torch.full((1, *SIZE), 2)
        items = [make_item(s, annotated, seed=1, values=values) for s in "ab"] + [make_item(s) for s in "cd"]
        move = RandAffined(KEYS, prob=1.0, translate_range=[(40, 40), (0, 0)], mode=MODES, padding_mode="zeros")
        dataset = ConditionalDataset(items, M, transform=move)
        data = dataset[0]
        assert (data["label"] == torch.tensor(outside, dtype=torch.bool)[:, None, None]).all()
        data = dataset[2]
        assert data["cond_mask"][0].all()  # background is known to be outside wherever class 0 is annotated
        assert not data["cond_mask"][1:].any()

    def test_plain_function(self):
        dataset = ConditionalDataset(partial_items(), M, transform=lambda data: data | {"image": data["image"] + 1})
        assert torch.equal(dataset[0]["image"], partial_items()[0]["image"] + 1)

    def test_tracking_of_metadata_is_restored(self):
        def fail(data):
            raise RuntimeError("broken transform")

        dataset = ConditionalDataset(partial_items(), M, transform=fail)
        with pytest.raises(RuntimeError, match="broken transform"):
            dataset[0]
        assert get_track_meta()


class TestTooFewSubjects:
    @pytest.mark.parametrize("count", [0, 1])
    def test_class_is_named(self, count):
        items = [make_item(f"s{s}", [0], seed=s) for s in range(3)]
        items += [make_item(f"t{s}", [1], seed=9) for s in range(count)]
        with pytest.raises(DataError, match=rf"class 'RV' is annotated in {count} training subject\(s\).*need two"):
            ConditionalDataset(items, M, classes=["background", "RV", "LV"])

    def test_two_images_of_one_subject_are_not_enough(self):
        items = [make_item("a", seed=1), make_item("a", seed=2)]
        with pytest.raises(DataError, match="'background' is annotated in 1 training subject"):
            ConditionalDataset(items, M, classes=["background", "RV", "LV"])

    def test_drawn_in_one_subject_and_empty_elsewhere(self):
        """It was warned of and then trained, with conditions that show nothing."""
        without = torch.randint(0, 2, (1, *SIZE), generator=torch.Generator().manual_seed(0))
        items = [make_item("a", seed=1), *(make_item(name, seed=2, values=without) for name in "bc")]
        with pytest.raises(DataError, match=r"class 'LV' is drawn in one training subject only \(a\) and empty in the"):
            ConditionalDataset(items, M, classes=["background", "RV", "LV"])

    def test_without_names(self):
        with pytest.raises(DataError, match="class '0' is annotated in 1 "):
            ConditionalDataset([make_item("a")], M)


class TestSliceDataset:
    def test_slices(self):
        volumes = []
        for name, depth in [("a", 2), ("b", 3)]:
            values = torch.arange(depth).expand(1, 4, 5, -1)
            label = EncodeCandidates(M)(MetaTensor(values.clone()), [1])
            image = MetaTensor(torch.rand(2, 4, 5, depth))
            volumes.append({"image": image, "label": label, "subject": name})
        dataset = SliceDataset(volumes)
        assert len(dataset) == 5
        assert [item["subject"] for item in (dataset[i] for i in range(5))] == ["a", "a", "b", "b", "b"]
        for index, (v, k) in enumerate([(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)]):
            item = dataset[index]
            assert type(item["image"]) is type(item["label"]) is torch.Tensor
            assert torch.equal(item["image"], volumes[v]["image"].as_tensor()[..., k])
            members = expand(item["label"][0], item["sets"], M)
            assert members[:, 0, 0].tolist() == ([False, True, False] if k == 1 else [True, False, True])

    def test_volume_that_was_never_encoded(self):
        volume = {"image": torch.rand(1, 4, 5, 2), "label": torch.zeros(1, 4, 5, 2), "subject": "a"}
        with pytest.raises(ValueError, match="no candidate sets"):
            SliceDataset([volume])[0]
