"""Tar archives and compressed streams: reading them safely, writing layers."""
