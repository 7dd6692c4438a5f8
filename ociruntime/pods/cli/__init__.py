"""The program ``ocipod``: one file per command; only this package of the pod layer prints."""
