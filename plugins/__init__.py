"""Discovery of plugins through entry points. Imports nothing else of this project."""
