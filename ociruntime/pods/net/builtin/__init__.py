"""Network plugins in Python: default networks, and configurations whose plugin is not installed."""
