"""How tokens are chosen: the fields that all generating endpoints share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from runtime.core.entrypoints.server.protocol.base import RequestModel, StreamOptions
from runtime.core.errors import RequestError
from runtime.core.sampling.params import SamplingParams
from runtime.core.structured_output.params import StructuredOutputs

TokenId = Annotated[int, Field(ge=0, lt=2**31)]


class JsonSchemaFormat(RequestModel):
    """A named JSON schema."""

    name: str = "schema"
    description: str | None = None
    json_schema: dict[str, Any] | None = Field(default=None, alias="schema")
    strict: bool | None = None


class ResponseFormat(RequestModel):
    """The form that the output must have, as the OpenAI API asks for it."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchemaFormat | None = None

    def structured_outputs(self) -> StructuredOutputs | None:
        """The same as the engine has it; None for plain text."""
        if self.type == "text":
            return None
        if self.type == "json_object":
            return StructuredOutputs(json_object=True)
        if self.json_schema is None or self.json_schema.json_schema is None:
            raise RequestError(
                "response_format: type json_schema needs json_schema.schema", "response_format"
            )
        return StructuredOutputs(json=self.json_schema.json_schema)


class StructuredOutputsFormat(RequestModel, extra="forbid"):
    """The form that the output must have: exactly one of the first five."""

    json_: str | dict[str, Any] | None = Field(
        default=None, alias="json", description="A JSON schema"
    )
    regex: str | None = Field(default=None, description="What the whole output matches")
    choice: list[str] | None = Field(default=None, description="The output is one of these")
    grammar: str | None = Field(default=None, description="EBNF or Lark")
    json_object: bool | None = Field(default=None, description="Any JSON object")
    disable_any_whitespace: bool = False

    def structured_outputs(self) -> StructuredOutputs:
        """The same as the engine has it."""
        return StructuredOutputs(
            json=self.json_,
            regex=self.regex,
            choice=self.choice,
            grammar=self.grammar,
            json_object=self.json_object,
            disable_any_whitespace=self.disable_any_whitespace,
        )


class SamplingFields(RequestModel):
    """Fields named as those of ``SamplingParams`` mean what they mean there."""

    model: str | None = Field(default=None, description="A name from /v1/models")
    n: int = Field(default=1, ge=1, le=1024, description="Outputs for each prompt")
    temperature: float | None = Field(default=None, ge=0, description="0 is greedy")
    top_p: float | None = Field(default=None, gt=0, le=1)
    top_k: int | None = Field(default=None, ge=-1, lt=2**31, description="0 or -1 is all")
    min_p: float | None = Field(default=None, ge=0, le=1)
    seed: int | None = Field(default=None, ge=-(2**63), lt=2**63)
    presence_penalty: float | None = Field(default=None, ge=-2, le=2)
    frequency_penalty: float | None = Field(default=None, ge=-2, le=2)
    repetition_penalty: float | None = Field(default=None, gt=0)
    max_tokens: int | None = Field(default=None, ge=0, lt=2**31)
    min_tokens: int | None = Field(default=None, ge=0, lt=2**31)
    stop: str | list[str] | None = Field(default=None, description="Texts that end the output")
    stop_token_ids: list[TokenId] | None = None
    include_stop_str_in_output: bool | None = None
    ignore_eos: bool | None = None
    bad_words: list[str] | None = None
    logit_bias: dict[str, float] | None = Field(
        default=None, description="By token id; values in [-100, 100]"
    )
    allowed_token_ids: list[TokenId] | None = None
    prompt_logprobs: int | None = Field(default=None, ge=-1, lt=2**31)
    detokenize: bool | None = None
    skip_special_tokens: bool | None = None
    spaces_between_special_tokens: bool | None = None
    truncate_prompt_tokens: int | None = Field(
        default=None, ge=-1, lt=2**31, description="-1 is what the context holds"
    )
    truncation_side: Literal["left", "right"] | None = None
    priority: int | None = Field(default=None, ge=-(2**31), lt=2**31)
    logits_processors: list[str] | None = None
    extra_args: dict[str, Any] | None = Field(default=None, alias="vllm_xargs")
    response_format: ResponseFormat | None = None
    structured_outputs: StructuredOutputsFormat | None = None
    cache_salt: str | None = Field(
        default=None, min_length=1, description="Prompts share cached blocks within one salt"
    )
    return_token_ids: bool = False
    stream: bool = False
    stream_options: StreamOptions | None = None
    user: str | None = None

    def usage_in_stream(self) -> tuple[bool, bool]:
        """Whether a last chunk has the usage, and whether every chunk has it.

        Raises:
            RequestError: there is no stream.
        """
        if self.stream_options is None:
            return False, False
        if not self.stream:
            raise RequestError("stream_options needs stream=true", "stream_options")
        last = self.stream_options.include_usage
        return last, last and self.stream_options.continuous_usage_stats

    def form(self) -> StructuredOutputs | None:
        """The form that the output must have.

        Raises:
            RequestError: it is asked for in two ways, or wrongly.
        """
        given = self.response_format
        formats = None if given is None else given.structured_outputs()
        if self.structured_outputs is None:
            return formats
        if formats is not None:
            raise RequestError(
                "response_format and structured_outputs exclude each other", "response_format"
            )
        return self.structured_outputs.structured_outputs()

    def sampling_params(self, defaults: Mapping[str, Any], **given: Any) -> SamplingParams:
        """The engine's parameters. ``defaults`` are a checkpoint's, ``given`` wins over fields.

        Raises:
            RequestError: a value is out of range.
        """
        fields = {
            name: value
            for name in SHARED_FIELDS
            if (value := getattr(self, name)) is not None and name not in given
        }
        return SamplingParams.from_generation_config(defaults, **fields, **given)


SHARED_FIELDS = frozenset(SamplingFields.model_fields) & frozenset(
    SamplingParams.__struct_fields__
) - {"structured_outputs"}
"""Fields that go to the engine as they are."""
