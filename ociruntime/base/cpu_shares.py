"""Convert CPU shares (cgroup v1) to a CPU weight (cgroup v2)."""

from __future__ import annotations


def weight_of_shares(shares: int) -> int:
    """Convert v1 CPU shares (2..262144, default 1024) to a v2 cpu.weight (1..10000, default 100).

    Runtimes and Kubernetes have agreed on this formula, which is quadratic in log2 of the shares.
    It maps the minimum, default and maximum number of shares to the minimum, default and maximum
    weight.  The earlier, linear formula mapped the default, 1024 shares, to a weight of only 39.
    """
    from math import ceil, log2

    if shares <= 2:
        return 1
    if shares >= 262144:
        return 10000
    logarithm = log2(shares)
    exponent = (logarithm * logarithm + 125 * logarithm) / 612 - 7 / 34
    return ceil(float(10.0**exponent))
