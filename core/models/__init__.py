"""Models: their registry, what each must offer, and one file for each family."""
