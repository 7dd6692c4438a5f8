"""Remove pods: garbage collection, and cleanup of what an exited pod left on the host."""
