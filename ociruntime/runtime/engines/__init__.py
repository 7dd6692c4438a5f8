"""The command ``setup``: configure the engines of this host to use ociruntime, and test them."""
