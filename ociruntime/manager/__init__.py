"""The container manager: the daemon ``ocid``, its containers, and its client ``ocictl``."""
