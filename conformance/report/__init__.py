"""Reports of outcomes, human-readable and machine-readable."""
