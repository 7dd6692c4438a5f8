"""Remove pods: garbage collection, and cleanup of the state that a run left on the host."""
