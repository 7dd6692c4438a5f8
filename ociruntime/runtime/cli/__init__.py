"""The command line: one file a verb; options are data."""
