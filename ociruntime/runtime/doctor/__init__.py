"""The command ``check``: probes of the host, and all problems of a bundle."""
