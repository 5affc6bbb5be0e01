"""Collectives between the workers of one model."""
