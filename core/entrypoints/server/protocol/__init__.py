"""What clients send and receive, as pydantic models: one source for checks and OpenAPI."""
