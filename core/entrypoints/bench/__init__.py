"""``runtime bench``: how fast an engine is, offline, behind an HTTP server and at its start."""
