"""The same workloads on this engine and on others, interleaved on one machine.

``python -m benchmarks.peers`` from the repository's root does all of it; see ``docs/peers.md``.
"""
