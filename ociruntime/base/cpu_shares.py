"""CPU shares of cgroup v1 as a weight of cgroup v2, for containers and for pods."""

from __future__ import annotations


def weight_of_shares(shares: int) -> int:
    """Convert v1's 2..262144 (default 1024) to v2's 1..10000 (default 100).

    Uses the quadratic in log2 that runtimes and Kubernetes have agreed on, which maps minimum,
    default and maximum to each other; the earlier linear formula gave 1024 shares a weight of 39.
    """
    from math import ceil, log2

    if shares <= 2:
        return 1
    if shares >= 262144:
        return 10000
    logarithm = log2(shares)
    exponent = (logarithm * logarithm + 125 * logarithm) / 612 - 7 / 34
    return ceil(float(10.0**exponent))
