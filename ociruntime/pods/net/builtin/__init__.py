"""Built-in network plugins, for the default networks and in place of missing CNI plugins."""
