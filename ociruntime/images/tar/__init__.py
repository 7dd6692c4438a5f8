"""Tar archives and compressed streams: read untrusted archives safely, and write layers."""
