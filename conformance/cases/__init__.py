"""The test cases, one file for each section of the specification."""
