"""The built-in platforms, one folder a device. Each uses only what a stranger's package could."""
