"""Sampling: what a request may ask for, and how tokens are drawn."""
