"""Discovery of plugins through entry points. Imports nothing else of this project."""

from runtime.plugins.errors import PluginError
from runtime.plugins.hookspecs import PLUGIN_API_VERSION, hookimpl
from runtime.plugins.server_extension import ServerExtension

__all__ = ["PLUGIN_API_VERSION", "PluginError", "ServerExtension", "hookimpl"]
