"""The runtime's side of the executor: start it, answer its messages, format its failures."""
