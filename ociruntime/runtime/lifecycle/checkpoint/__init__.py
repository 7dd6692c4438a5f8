"""The commands `checkpoint` and `restore`: save containers to files and restore them, with CRIU."""
