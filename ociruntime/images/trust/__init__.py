"""Image trust: the signature policy, keys and signatures."""
