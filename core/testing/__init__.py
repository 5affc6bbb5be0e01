"""The conformance suite: what every platform must do, as a pytest plugin.

``pytest --runtime-platform NAME`` runs it on any installed platform, ``runtime conformance``
does so from the command line. See ``docs/support.md``.
"""
