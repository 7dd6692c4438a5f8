"""Start of a program: the archive of its modules and the snapshot of its interpreter."""
