"""Built-in network plugins: for the default networks, and if a CNI plugin is not installed."""
