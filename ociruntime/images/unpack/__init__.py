"""Layers of images to trees of files, and the store of such trees."""
