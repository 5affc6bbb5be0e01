"""The paged KV cache: what each layer keeps, the pools of blocks, and who owns which block."""
