"""Conversion of CPU shares (cgroup v1) to a CPU weight (cgroup v2), for containers and pods."""

from __future__ import annotations


def weight_of_shares(shares: int) -> int:
    """Convert v1 CPU shares (2..262144, default 1024) to a v2 cpu.weight (1..10000, default 100).

    The formula, quadratic in log2 of the shares, is the one that runtimes and Kubernetes have
    agreed on.  It maps minimum, default and maximum to each other; the earlier linear formula gave
    1024 shares a weight of 39.
    """
    from math import ceil, log2

    if shares <= 2:
        return 1
    if shares >= 262144:
        return 10000
    logarithm = log2(shares)
    exponent = (logarithm * logarithm + 125 * logarithm) / 612 - 7 / 34
    return ceil(float(10.0**exponent))
