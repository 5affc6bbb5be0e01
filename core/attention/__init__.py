"""Attention: backends, how one is chosen for a layer, and the layer that models contain."""
