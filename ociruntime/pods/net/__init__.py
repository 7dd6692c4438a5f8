"""Networks of pods: CNI configurations and plugins, port forwarding, resolv.conf and hosts."""
