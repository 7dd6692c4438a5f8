"""Removing pods: garbage collection, and what an ended pod may have left on the host."""
