"""Statistics against numbers worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import wilcoxon

from dcl_monai.studies.statistics import bootstrap_interval, compare, holm, patient_means, summarize

NAN = float("nan")


def test_patients_average_what_was_measured_of_them():
    means = patient_means({"a": [0.8, 0.9], "b": [0.5, NAN], "c": [NAN]})
    assert means == pytest.approx({"a": 0.85, "b": 0.5})


def test_summary():
    found = summarize([0.7, 0.8, 0.9])
    assert found.mean == pytest.approx(0.8)
    assert found.deviation == pytest.approx(0.1)  # sample standard deviation
    assert found.patients == 3
    assert 0.7 <= round(found.low, 9) < 0.8 < round(found.high, 9) <= 0.9


def test_summary_of_one_and_of_none():
    one, none = summarize([0.5]), summarize([])
    assert (one.mean, one.patients) == (0.5, 1)
    assert math.isnan(one.deviation)
    assert math.isnan(one.low)
    assert none.patients == 0
    assert math.isnan(none.mean)


def test_bootstrap_of_two_patients():
    """The resamples are (0,0), (0,1), (1,0), (1,1), with means 0, 0.5, 0.5, 1."""
    assert bootstrap_interval([0.0, 1.0]) == (0.0, 1.0)


def test_bootstrap_interval_is_near_the_normal_one():
    values = np.random.default_rng(1).normal(0.8, 0.1, 100)
    low, high = bootstrap_interval(values)
    error = 1.96 * values.std(ddof=1) / 10
    assert low == pytest.approx(values.mean() - error, abs=0.003)
    assert high == pytest.approx(values.mean() + error, abs=0.003)


def test_bootstrap_repeats():
    assert bootstrap_interval([0.1, 0.5, 0.7]) == bootstrap_interval([0.1, 0.5, 0.7])


def test_compare_by_hand():
    """Six patients, all better: the smallest rank sum is 0, which has p = 2 / 2**6."""
    other = {f"p{i}": 0.5 for i in range(6)}
    one = {f"p{i}": 0.5 + 0.01 * (i + 1) for i in range(6)}
    found = compare(one, other)
    assert found.p == pytest.approx(2 / 64)
    assert found.difference == pytest.approx(0.035)
    assert found.patients == 6
    assert compare(other, one).difference == pytest.approx(-0.035)


def test_rounding_of_means_decides_nothing():
    """Dice tables are rounded, so differences may tie; means summed up in another order differ in the last bit."""
    gains = [0.01, 0.01, 0.01, -0.01, 0.02, 0.02, -0.03, 0.04, 0.05, 0.06]
    other = {k: 0.7 + 0.01 * k for k in range(len(gains))}
    exact = {k: other[k] + gain for k, gain in enumerate(gains)}
    nudged = {k: value + (k - 4) * 2e-16 for k, value in exact.items()}
    assert len({nudged[k] - other[k] for k in range(3)}) > 1, "or there is nothing to see"
    assert compare(exact, other) == compare(nudged, other)


def test_compare_pairs_patients_by_name():
    one = {"a": 0.9, "b": 0.1, "c": 0.5}
    other = {"c": 0.4, "b": 0.2, "a": 0.7, "d": 0.0}
    found = compare(one, other)
    assert found.patients == 3
    assert found.p == pytest.approx(wilcoxon([0.2, -0.1, 0.1]).pvalue)


def test_compare_without_differences_or_patients():
    assert compare({"a": 0.5}, {"a": 0.5}).p == 1.0
    nothing = compare({"a": 0.5}, {"b": 0.5})
    assert nothing.patients == 0
    assert math.isnan(nothing.p)


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.04, 0.5]) == pytest.approx([0.08, 0.5])
    assert holm([0.6, 0.7]) == pytest.approx([1.0, 1.0])


def test_holm_does_not_count_what_was_not_tested():
    corrected = holm([NAN, 0.02, 0.03])
    assert math.isnan(corrected[0])
    assert corrected[1:] == pytest.approx([0.04, 0.04])
