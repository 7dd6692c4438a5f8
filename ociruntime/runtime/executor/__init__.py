"""Start the C executor, communicate with it, and format its failures."""
