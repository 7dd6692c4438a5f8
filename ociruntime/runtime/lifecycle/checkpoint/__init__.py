"""The commands `checkpoint` and `restore`: save a container to files and restore it, with CRIU."""
