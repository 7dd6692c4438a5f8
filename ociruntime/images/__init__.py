"""Images: fetching and storing them, and unpacking them to the root filesystems of pods."""
