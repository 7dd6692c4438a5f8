"""The bundle: load, check and explain config.json; the state document."""
