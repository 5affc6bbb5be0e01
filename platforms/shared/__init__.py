"""What platforms' kernels have in common: which arguments they take, how libraries are called."""
