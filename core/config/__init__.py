"""Configuration: frozen dataclasses, resolved once and never written again."""
