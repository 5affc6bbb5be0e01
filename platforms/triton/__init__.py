"""Kernels in Triton, which several GPU platforms share. No platform by itself.

Triton and its compiler are imported by the first kernel call, never by importing a module that a
platform names at start-up.
"""
