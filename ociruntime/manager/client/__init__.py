"""The program ``ocictl``: the command-line client of ocid, which it talks HTTP to."""
