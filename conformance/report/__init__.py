"""Outcomes in the formats of people and of machines."""
