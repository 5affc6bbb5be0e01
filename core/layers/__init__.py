"""Layers of models. Each that owns a checkpoint's tensors says so in ``checkpoint_tensors``."""
