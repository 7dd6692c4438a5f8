"""Tar archives and compressed streams: safe reading, and writing of layers."""
