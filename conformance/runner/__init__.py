"""Run cases in parallel, each in its own process, and collect their outcomes."""
