"""Networks of pods: CNI configurations and plugins, forwarded ports, resolver and hosts files."""
