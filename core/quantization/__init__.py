"""Quantisation: what the weights of a linear layer are, and what is computed with them."""
