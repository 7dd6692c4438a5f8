"""Pods: prepare them from images, run them under a monitor, and remove them."""
