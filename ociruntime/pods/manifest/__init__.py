"""Build a pod's manifest from a command line and images, or from a file; mostly pure."""
