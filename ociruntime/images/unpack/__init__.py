"""Unpack image layers into root filesystem trees, and store those trees."""
