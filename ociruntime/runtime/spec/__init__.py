"""The bundle: loading, checking and explaining config.json; the state document."""
