"""The program ``ocictl``: the command-line client of ocid, which it reaches only by HTTP."""
