"""The command ``check``: probes of the host, and a list of all problems of a bundle."""
