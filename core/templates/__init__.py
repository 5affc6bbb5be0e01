"""Packages that ``runtime new-platform`` and ``runtime new-model`` write, as plain templates."""
