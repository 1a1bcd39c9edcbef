"""Estimates of parts of the time from moments, with intervals (docs/profile.md)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import sqrt
from statistics import fmean, variance

from ompd.model.profile import Estimate

FEWEST = 30
"""The fewest moments for which there is an interval."""
_BATCHES = 20
# Two-sided 95 % quantiles of Student's t, by degrees of freedom.
_T = {14: 2.145, 15: 2.131, 16: 2.120, 17: 2.110, 18: 2.101, 19: 2.093}
_RULE_OF_THREE = 3.0


def estimate(values: Sequence[float]) -> Estimate:
    """Return the mean of *values*, one of each moment in the order of time, with its 95 % interval.

    The interval is that of batch means: values of neighbouring moments depend on each other as long as a phase of the
    program lasts, and means of consecutive batches do so much less. By the rule of three, what was seen at none of n
    moments may have a part of 3/n: no interval is narrower. There is none for fewer than :data:`FEWEST` values.
    """
    count = len(values)
    if not count:
        return Estimate(0.0)
    mean = fmean(values)
    if count < FEWEST:
        return Estimate(mean)
    batches = min(_BATCHES, count // 2)
    bounds = [count * number // batches for number in range(batches + 1)]
    means = [fmean(values[low:high]) for low, high in pairwise(bounds)]
    half = max(_T[batches - 1] * sqrt(variance(means) / batches), _RULE_OF_THREE / count)
    return Estimate(mean, max(0.0, mean - half), min(1.0, mean + half))
