"""Checkpoints: what is on disk, checked when it is opened, and how it fills a model."""
