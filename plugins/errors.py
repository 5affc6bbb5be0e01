"""The error of discovery."""

from __future__ import annotations


class PluginError(ValueError):
    """A plugin that was asked for cannot be had; the message says why and what to do."""
