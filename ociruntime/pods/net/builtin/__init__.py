"""Built-in network plugins, used for the default networks and if CNI's are not installed."""
