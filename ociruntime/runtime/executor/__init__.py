"""The runtime's side of the executor: start it, answer its messages, and explain its failures."""
