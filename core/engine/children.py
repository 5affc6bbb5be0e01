"""Several outputs of one prompt: a request of the engine's own for each."""

from __future__ import annotations

import secrets

import msgspec

from runtime.core.messages import EngineRequest


def split(request: EngineRequest) -> list[EngineRequest]:
    """One engine request for each of ``n`` outputs; they share the prompt's cached blocks.

    Greedy outputs would all be the same, and seeded ones too if they shared the seed.
    """
    params = request.params
    if params.n == 1:
        return [request]
    children = []
    for index in range(params.n):
        seed = None if params.seed is None else (params.seed + index) % 2**64
        # Only the first reports the prompt's log-probabilities.
        logprobs = params.prompt_logprobs if index == 0 else None
        own = msgspec.structs.replace(params, n=1, seed=seed, prompt_logprobs=logprobs)
        child_id = f"{request.request_id}#{index}-{secrets.token_hex(4)}"
        children.append(msgspec.structs.replace(request, request_id=child_id, params=own))
    return children
