"""Drives a server through langchain-openai: chat, stream, tools, structured output, token counts.

pip install langchain-openai
python tests/e2e/clients/langchain_client.py http://127.0.0.1:8000 MODEL
"""

import sys

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, ConfigDict


@tool
def now() -> str:
    """The time."""
    return "12:00"


class Umbrella(BaseModel):
    """Whether an umbrella is needed."""

    model_config = ConfigDict(extra="forbid")

    needed: bool


def main(url, model):
    chat = ChatOpenAI(
        base_url=f"{url}/v1", api_key="any", model=model, temperature=0, max_tokens=32
    )
    whole = chat.invoke("What is gravity?")
    assert whole.content
    assert whole.usage_metadata["output_tokens"] == 32
    chunks = list(chat.stream("What is gravity?"))
    assert "".join(chunk.content for chunk in chunks) == whole.content
    forced = chat.bind_tools([now], tool_choice="now").invoke("What time is it?")
    assert [call["name"] for call in forced.tool_calls] == ["now"]
    for method in ("json_schema", "function_calling"):
        answer = chat.with_structured_output(Umbrella, method=method).invoke("It rains.")
        assert isinstance(answer, Umbrella), answer
    assert len(chat.batch(["One?", "Two?", "Three?"])) == 3
    print("langchain-openai: all as expected")


if __name__ == "__main__":
    main(*sys.argv[1:])
