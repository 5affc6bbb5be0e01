"""The engine. It knows no device: it receives a platform and asks what that platform can do."""
