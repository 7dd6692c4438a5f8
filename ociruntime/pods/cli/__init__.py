"""The commands of ``ocipod``; the only package of the pod layer that prints."""
