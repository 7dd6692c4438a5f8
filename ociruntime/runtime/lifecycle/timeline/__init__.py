"""``--timeline``: where the time of a command goes."""
