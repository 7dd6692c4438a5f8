"""The program ``ocictl``: the command-line client of ocid, which serves an HTTP API."""
