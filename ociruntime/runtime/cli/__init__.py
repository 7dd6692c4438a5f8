"""The command line of ``ociruntime``: each command with its options, help and examples."""
