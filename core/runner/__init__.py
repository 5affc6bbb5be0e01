"""Workers and model runners: a scheduled step becomes tensors, and tensors become tokens."""
