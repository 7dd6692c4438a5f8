"""Reports of outcomes: text, HTML, JSON, JUnit and TAP."""
