"""Run cases: selection, one process for each, outcomes."""
