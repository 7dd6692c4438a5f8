"""How a program starts: the archive of its modules, and the snapshot of its interpreter."""
