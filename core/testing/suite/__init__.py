"""The suite's test modules, one for each part of the platform contract."""
