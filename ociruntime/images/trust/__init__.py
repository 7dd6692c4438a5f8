"""Trust in images: the signature policy, keys and signatures."""
