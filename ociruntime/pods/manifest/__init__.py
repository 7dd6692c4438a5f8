"""Build a pod's manifest from command-line options and images, or from a file."""
