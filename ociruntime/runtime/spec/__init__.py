"""The bundle: load and check config.json, its default and annotations; the state document."""
