"""Which images are accepted: the policy, keys and signatures."""
