"""What a request that pools gives back to the user."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    import torch

    from runtime.core.pooling.params import Vectors


@dataclass(frozen=True)
class PoolingOutput:
    """The vectors of one prompt."""

    data: torch.Tensor
    """float32 on the host: [hidden size], or [tokens, hidden size] for ``token_embed``."""

    @classmethod
    def from_vectors(cls, vectors: Vectors | None) -> PoolingOutput:
        """From what the engine gave; empty where that is nothing."""
        import numpy as np
        import torch

        if vectors is None:
            return cls(torch.empty(0))
        numbers = np.frombuffer(vectors.data, dtype="<f4").astype(np.float32)
        return cls(torch.from_numpy(numbers).reshape(vectors.shape))


@dataclass(frozen=True)
class EmbeddingOutput:
    """The embedding of one prompt."""

    embedding: list[float]

    @property
    def hidden_size(self) -> int:
        """Elements of the embedding."""
        return len(self.embedding)


Output = TypeVar("Output", PoolingOutput, EmbeddingOutput)


@dataclass(frozen=True)
class PooledRequest(Generic[Output]):
    """One prompt's result."""

    request_id: str
    outputs: Output
    prompt_token_ids: list[int]
    """As they were computed: truncated, and with special tokens."""
    num_cached_tokens: int = 0
    """Prompt tokens that came from the prefix cache."""
    finish_reason: str = "stop"
    """``stop``, or ``abort`` or ``error``: then ``outputs`` is empty."""
    error: str | None = None
    """What went wrong, where ``finish_reason`` is ``error``: other requests are as they were."""
    finished: bool = True


PoolingRequestOutput = PooledRequest[PoolingOutput]
EmbeddingRequestOutput = PooledRequest[EmbeddingOutput]


def as_embedding(output: PoolingRequestOutput) -> EmbeddingRequestOutput:
    """The same with a list of numbers in place of a tensor."""
    return PooledRequest(
        output.request_id,
        EmbeddingOutput(output.outputs.data.tolist()),
        output.prompt_token_ids,
        output.num_cached_tokens,
        output.finish_reason,
        output.error,
    )
