"""One module an engine. Each runs in that engine's own environment: the standard library is all
that they share.
"""
