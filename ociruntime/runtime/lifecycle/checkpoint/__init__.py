"""Checkpoint and restore of containers, by CRIU."""
