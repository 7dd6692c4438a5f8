"""The program ``ocipod``: one file a command; the only place of the pod layer that prints."""
