"""Statistics over patients.

The patient is the unit: two phases of one heart, or three trainings tested on it, are no further patients. They are
averaged within the patient first.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from scipy.stats import bootstrap, wilcoxon

Patient = TypeVar("Patient", bound=Hashable)

RESAMPLES = 10_000
LEVEL = 0.95


@dataclass(frozen=True)
class Summary:
    """A mean over patients."""

    mean: float  # the mean
    deviation: float  # sample standard deviation over patients; ``nan`` for one patient
    low: float  # lower end of the bootstrap interval
    high: float  # upper end of it
    patients: int  # number of patients that count


@dataclass(frozen=True)
class Comparison:
    """Two rows on the same patients."""

    difference: float  # mean of one minus other
    p: float  # two-sided p of Wilcoxon's signed-rank test; ``nan`` if there is nothing to test
    patients: int  # number of patients that both have


def patient_means(values: Mapping[Patient, Sequence[float]]) -> dict[Patient, float]:
    """
    Average what was measured of each patient.

    Args:
        values: patient -> measurements (phases, seeds); what was not measured is ``nan`` and does not count.

    Returns:
        patient -> mean; a patient of whom nothing was measured is left out.
    """
    kept = {patient: [v for v in measured if not np.isnan(v)] for patient, measured in values.items()}
    return {patient: float(np.mean(measured)) for patient, measured in kept.items() if measured}


def bootstrap_interval(values: Sequence[float], seed: int = 0) -> tuple[float, float]:
    """Percentile bootstrap interval (95%) of the mean over patients."""
    if len(values) < 2:
        return float("nan"), float("nan")
    found = bootstrap(
        (values,),
        np.mean,
        n_resamples=RESAMPLES,
        confidence_level=LEVEL,
        method="percentile",
        rng=np.random.default_rng(seed),
    )
    return float(found.confidence_interval.low), float(found.confidence_interval.high)


def summarize(values: Sequence[float]) -> Summary:
    """Mean, standard deviation and interval over patients, of one value each."""
    if not len(values):
        return Summary(math.nan, math.nan, math.nan, math.nan, 0)
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")
    return Summary(float(np.mean(values)), deviation, *bootstrap_interval(values), len(values))


def compare(one: Mapping[Hashable, float], other: Mapping[Hashable, float]) -> Comparison:
    """
    Test two rows on the patients that both have, by Wilcoxon's signed-rank test (exact for up to 50 patients without
    ties, normal approximation otherwise, as SciPy chooses). Differences that agree to nine digits are ties, so that
    rounding does not decide.
    """
    patients = sorted(set(one) & set(other), key=str)
    differences = np.round([one[patient] - other[patient] for patient in patients], 9)
    if not len(differences):
        return Comparison(float("nan"), float("nan"), 0)
    # without a difference there is no rank
    p = 1.0 if not differences.any() else float(wilcoxon(differences).pvalue)
    return Comparison(float(differences.mean()), p, len(patients))


def holm(p_values: Sequence[float]) -> list[float]:
    """
    Holm's correction for testing several hypotheses at once, which SciPy does not have.

    Args:
        p_values: p of each; ``nan`` where nothing was tested, which stays and does not count.

    Returns:
        corrected p of each, in the same order.
    """
    tested = [place for place, p in enumerate(p_values) if not np.isnan(p)]
    result, largest = [float("nan")] * len(p_values), 0.0
    for rank, place in enumerate(sorted(tested, key=lambda place: p_values[place])):
        largest = max(largest, min(1.0, (len(tested) - rank) * p_values[place]))
        result[place] = largest
    return result
