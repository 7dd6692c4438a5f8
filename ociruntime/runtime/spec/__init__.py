"""Load and check config.json; also the default config, annotations and the state document."""
