"""The program ``ocid``: the container manager as a daemon."""
