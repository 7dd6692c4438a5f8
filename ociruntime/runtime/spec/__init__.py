"""Load and check config.json; the default config, annotations and the state document."""
