"""What a host can do for containers, and all that is wrong with a bundle."""
