"""Pooling: from a prompt's hidden states to its embedding."""
