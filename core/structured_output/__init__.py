"""Structured output: grammars that bind what a request may generate."""
