"""Tool calls: from the text that a model writes to the calls that it means."""
