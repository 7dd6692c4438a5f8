"""The command ``check``: probes of the host, and all faults of a bundle."""
