"""The engine: from a validated request to its output."""
