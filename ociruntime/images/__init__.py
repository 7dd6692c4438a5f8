"""Images: fetch and store them, and unpack them to the root filesystems of pods."""
