"""Built-in network plugins, for the default networks and where CNI's are not installed."""
