"""Drives a server through litellm: chat, stream, completions and Anthropic's messages.

pip install litellm
python tests/e2e/clients/litellm_client.py http://127.0.0.1:8000 MODEL
"""

import sys

import litellm


def main(url, model):
    common = {"api_key": "any", "max_tokens": 16, "temperature": 0}
    messages = [{"role": "user", "content": "What is gravity?"}]
    openai = {"model": f"openai/{model}", "api_base": f"{url}/v1", **common}
    whole = litellm.completion(messages=messages, **openai).choices[0].message.content
    stream = litellm.completion(messages=messages, stream=True, **openai)
    parts = [chunk.choices[0].delta.content or "" for chunk in stream]
    assert "".join(parts) == whole, (parts, whole)
    text = {**openai, "model": f"text-completion-openai/{model}"}
    assert litellm.text_completion(prompt="The capital of France is", **text).choices[0].text
    claude = {"model": f"anthropic/{model}", "api_base": url, **common}
    assert litellm.completion(messages=messages, **claude).choices[0].message.content == whole
    stream = litellm.completion(messages=messages, stream=True, **claude)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == whole
    for wrong, kind in (
        ({**openai, "model": "openai/none"}, litellm.NotFoundError),
        ({**openai, "temperature": -1}, litellm.BadRequestError),
        ({**claude, "temperature": -1}, litellm.BadRequestError),
    ):
        try:
            litellm.completion(messages=messages, **wrong)
        except kind:
            continue
        raise AssertionError(f"{wrong} was not refused as {kind.__name__}")
    print("litellm: all as expected")


if __name__ == "__main__":
    main(*sys.argv[1:])
