"""The runtime's side of the executor: start it, answer its messages, explain its failures."""
