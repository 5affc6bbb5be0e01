"""``/v1/chat/completions``: prompts, forms of answers, tools, thoughts; streamed or not."""

import json

import pytest

from runtime.core.entrypoints.server.chat_prompt import content_format

PATH = "/v1/chat/completions"
GREEDY = {"temperature": 0, "ignore_eos": True, "max_tokens": 8}
USER = [{"role": "user", "content": "hi"}]
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Tells the weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"enum": ["Rome", "Oslo"]}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}
NOW = {"type": "function", "function": {"name": "now"}}


@pytest.fixture
def chat(client):
    def run(messages=USER, client=client, **fields):
        answer = client.post(PATH, json={"messages": messages, **GREEDY, **fields})
        assert answer.status_code == 200, answer.text
        return answer.json()

    return run


@pytest.fixture
def stream(client, events):
    def run(messages=USER, client=client, **fields):
        return events(client, PATH, {"messages": messages, **GREEDY, **fields})

    return run


def put_together(chunks):
    """The messages that a stream's deltas make, as clients do; checks their order."""
    messages = {}
    for chunk in chunks:
        for choice in chunk["choices"]:
            new = choice["index"] not in messages
            message = messages.setdefault(
                choice["index"], {"content": "", "reasoning": "", "calls": [], "finish": None}
            )
            delta = choice["delta"]
            assert ("role" in delta) == new
            assert message["finish"] is None, "something came after the end"
            message["content"] += delta.get("content") or ""
            message["reasoning"] += delta.get("reasoning_content") or ""
            for call in delta.get("tool_calls", ()):
                if call["index"] == len(message["calls"]):
                    assert call["id"]
                    assert call["type"] == "function"
                    message["calls"].append([call["id"], call["function"]["name"], ""])
                else:
                    assert not {"id", "type"} & set(call)
                    assert "name" not in call["function"]
                message["calls"][call["index"]][2] += call["function"]["arguments"]
            message["finish"] = choice["finish_reason"]
    return messages


def prompt_of(client, messages, **fields):
    """The text that a conversation becomes."""
    tokens = client.post("/tokenize", json={"messages": messages, **fields}).json()["tokens"]
    return client.post("/detokenize", json={"tokens": tokens}).json()["prompt"]


class TestPrompts:
    def test_the_template_makes_the_prompt(self, client, chat):
        assert prompt_of(client, USER) == "[user]hi[assistant]"
        answer = chat(return_token_ids=True)
        assert answer["usage"]["prompt_tokens"] == len("[user]hi[assistant]")
        ids = answer["prompt_token_ids"]
        assert (
            client.post("/detokenize", json={"tokens": ids}).json()["prompt"].startswith("[user]")
        )

    def test_parts_are_put_together(self, client):
        parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
        assert prompt_of(client, [{"role": "user", "content": parts}]) == "[user]a\nb[assistant]"

    @pytest.mark.parametrize(
        ("arguments", "shown"),
        [
            ('{"city": "Rome"}', '{"city": "Rome"}'),
            ("", "{}"),
            (None, "{}"),
            ({"a": 1}, '{"a": 1}'),
        ],
    )
    def test_calls_of_the_history_reach_the_template_as_objects(self, client, arguments, shown):
        call = {"id": "1", "type": "function"}
        call["function"] = {"name": "weather", "arguments": arguments}
        messages = [
            *USER,
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "content": "sunny", "tool_call_id": "1"},
        ]
        text = prompt_of(client, messages)
        assert text == f"[user]hi[assistant]<weather {shown}>[tool]sunny[assistant]"

    def test_the_last_message_goes_on(self, client, chat):
        messages = [*USER, {"role": "assistant", "content": "The best"}]
        fields = {"continue_final_message": True}
        assert prompt_of(client, messages, **fields).endswith("[assistant]The best")
        plain = chat(messages, **fields)["choices"][0]["message"]["content"]
        echoed = chat(messages, echo=True, **fields)["choices"][0]["message"]["content"]
        assert echoed == "The best" + plain

    def test_prompts_are_cut_where_it_is_asked_for(self, chat):
        for side, part in (("left", slice(-4, None)), ("right", slice(0, 4))):
            whole = chat(return_token_ids=True)["prompt_token_ids"]
            cut = chat(return_token_ids=True, truncate_prompt_tokens=4, truncation_side=side)
            assert cut["prompt_token_ids"] == whole[part]

    def test_an_operator_and_a_trusted_client_bring_templates(self, live, chat, tmp_path):
        path = tmp_path / "template.jinja"
        path.write_text("{% for m in messages %}<{{ m.content }}>{% endfor %}")
        own = live.client(chat_template=str(path), trust_request_chat_template=True)
        assert prompt_of(own, USER) == "<hi>"
        assert prompt_of(own, USER, chat_template="{{ x }}", chat_template_kwargs={"x": "y"}) == "y"

    def test_a_model_without_a_template_still_completes(self, live, client):
        tokenizer = live.llm.tokenizer
        templates, tokenizer._templates = tokenizer._templates, {}
        try:
            answer = client.post(PATH, json={"messages": USER})
            assert answer.status_code == 400
            assert "--chat-template" in answer.json()["error"]["message"]
            done = client.post("/v1/completions", json={"prompt": "a", "max_tokens": 1})
            assert done.status_code == 200
        finally:
            tokenizer._templates = templates

    @pytest.mark.parametrize(
        ("template", "form"),
        [
            ("{% for m in messages %}{{ m.content }}{% endfor %}", "string"),
            ("{% for m in messages %}{{ m['content'] | trim }}{% endfor %}", "string"),
            (
                "{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}"
                "{% endfor %}",
                "openai",
            ),
            (
                "{% for m in messages %}{% for p in m['content'] | list %}{% endfor %}{% endfor %}",
                "openai",
            ),
            (
                "{% for m in messages %}{% set c = m['content'] %}"
                "{% for p in c %}{% endfor %}{% endfor %}",
                "openai",
            ),
            ("{% broken", "string"),
        ],
    )
    def test_templates_say_how_they_read_content(self, template, form):
        assert content_format(template) == form


class TestAnswers:
    @pytest.mark.parametrize(
        "fields",
        [
            {},
            {"n": 3, "temperature": 1, "seed": 5},
            {"stop": ["a", "e"], "max_tokens": 40},
            {"response_format": {"type": "text"}},
        ],
    )
    def test_streamed_or_not_it_is_the_same(self, chat, stream, fields):
        whole = chat(**fields)["choices"]
        parts = put_together(stream(**fields))
        assert len(whole) == len(parts) == fields.get("n", 1)
        for choice in whole:
            part = parts[choice["index"]]
            assert part["content"] == choice["message"]["content"]
            assert part["finish"] == choice["finish_reason"]
            assert choice["message"]["role"] == "assistant"

    def test_logprobs_are_those_of_the_tokens(self, chat, stream):
        fields = {"logprobs": True, "top_logprobs": 3, "return_token_ids": True}
        choice = chat(**fields)["choices"][0]
        content = choice["logprobs"]["content"]
        assert len(content) == len(choice["token_ids"]) == 8
        for entry in content:
            assert [top["logprob"] for top in entry["top_logprobs"]] == sorted(
                (top["logprob"] for top in entry["top_logprobs"]), reverse=True
            )
            assert len(entry["top_logprobs"]) == 3
            assert entry["top_logprobs"][0]["logprob"] == entry["logprob"]
        streamed = [
            entry
            for chunk in stream(**fields)
            for choice in chunk["choices"]
            for entry in (choice["logprobs"] or {"content": []})["content"]
        ]
        assert [entry["token"] for entry in streamed] == [entry["token"] for entry in content]
        alone = chat(logprobs=True)["choices"][0]["logprobs"]["content"]
        assert all(entry["top_logprobs"] == [] for entry in alone)

    def test_without_a_limit_the_context_is_filled(self, chat):
        answer = chat(max_tokens=None)
        assert answer["usage"]["total_tokens"] == 256
        assert answer["choices"][0]["finish_reason"] == "length"

    def test_a_schema_binds(self, chat):
        schema = {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"]}
        schema["additionalProperties"] = False
        form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
        fields = {"response_format": form, "max_tokens": 150, "ignore_eos": False}
        answer = chat(**fields, temperature=1, seed=3)["choices"][0]
        if answer["finish_reason"] == "stop":
            assert json.loads(answer["message"]["content"]) in ({"a": 1}, {"a": 2})


class TestTools:
    @pytest.mark.parametrize(
        ("choice", "names"),
        [
            ("required", {"weather", "now"}),
            ({"type": "function", "function": {"name": "weather"}}, {"weather"}),
            ({"type": "function", "function": {"name": "now"}}, {"now"}),
        ],
    )
    @pytest.mark.parametrize("seed", [1, 2])
    def test_a_call_that_must_be_made_is_made(self, chat, stream, choice, names, seed):
        fields = {"tools": [WEATHER, NOW], "tool_choice": choice, "max_tokens": 150}
        fields |= {"seed": seed, "temperature": 1, "ignore_eos": False}
        answer = chat(**fields)["choices"][0]
        part = put_together(stream(**fields))[0]
        assert part["finish"] == answer["finish_reason"]
        calls = answer["message"]["tool_calls"]
        assert answer["message"]["content"] is None
        assert [call["function"]["name"] for call in calls] == [
            name for _, name, _ in part["calls"]
        ]
        arguments = [call["function"]["arguments"] for call in calls]
        assert arguments == [text for _, _, text in part["calls"]]
        if answer["finish_reason"] == "length":
            return
        assert answer["finish_reason"] == "tool_calls"
        for call in calls:
            assert call["function"]["name"] in names
            given = json.loads(call["function"]["arguments"])
            if call["function"]["name"] == "now":
                assert given == {}
            else:
                assert given["city"] in ("Rome", "Oslo")

    def test_one_call_alone_where_parallel_ones_are_not_wanted(self, chat):
        for seed in range(3):
            answer = chat(
                tools=[NOW],
                tool_choice="required",
                parallel_tool_calls=False,
                temperature=1,
                seed=seed,
                ignore_eos=False,
                max_tokens=100,
            )
            assert len(answer["choices"][0]["message"]["tool_calls"]) == 1

    def test_none_means_no_call_and_no_word_of_tools(self, client, chat):
        plain = chat()["choices"]
        assert chat(tools=[NOW], tool_choice="none")["choices"] == plain

    @pytest.fixture
    def speaking(self, live, monkeypatch):
        """A server whose model says what it is told to."""

        def make(text, **flags):
            client = live.client(**flags)
            ids = live.llm.tokenizer.encode(text)
            # Each token but one is out of reach at each position: a grammar of one sentence.
            fields = {
                "structured_outputs": {"choice": [text]},
                "max_tokens": len(ids) + 1,
                "ignore_eos": False,
            }
            return client, fields

        return make

    TWO_CALLS = (
        'Let me see. <tool_call>{"name": "weather", "arguments": {"city": "Rome"}}</tool_call>\n'
        '<tool_call>{"name": "now", "arguments": {}}</tool_call>'
    )

    def test_calls_in_a_models_own_words(self, chat, stream, speaking):
        flags = {"enable_auto_tool_choice": True, "tool_call_parser": "hermes"}
        client, fields = speaking(self.TWO_CALLS, **flags)
        fields["tools"] = [WEATHER, NOW]
        answer = chat(client=client, **fields)["choices"][0]
        assert answer["finish_reason"] == "tool_calls"
        assert answer["message"]["content"].strip() == "Let me see."
        calls = [call["function"] for call in answer["message"]["tool_calls"]]
        assert [call["name"] for call in calls] == ["weather", "now"]
        assert [json.loads(call["arguments"]) for call in calls] == [{"city": "Rome"}, {}]
        chunks = stream(client=client, **fields)
        part = put_together(chunks)[0]
        assert [call[1:] for call in part["calls"]] == [
            [call["name"], call["arguments"]] for call in calls
        ]
        assert part["finish"] == "tool_calls"
        assert part["content"] == answer["message"]["content"]
        one = chat(client=client, parallel_tool_calls=False, **fields)["choices"][0]
        assert len(one["message"]["tool_calls"]) == 1

    def test_without_a_call_an_answer_is_content(self, chat, stream, speaking):
        flags = {"enable_auto_tool_choice": True, "tool_call_parser": "hermes"}
        client, fields = speaking("no calls <tool", **flags)
        for choice in ("auto", None):
            answer = chat(client=client, tools=[NOW], tool_choice=choice, **fields)["choices"][0]
            assert answer["message"]["content"] == "no calls <tool"
            assert "tool_calls" not in answer["message"]
            assert answer["finish_reason"] == "stop"
        part = put_together(stream(client=client, tools=[NOW], **fields))[0]
        assert part["content"] == "no calls <tool"


class TestReasoning:
    @pytest.fixture
    def thinker(self, live):
        return live.client(reasoning_parser="deepseek_r1")

    def test_thoughts_are_told_apart(self, chat, stream, thinker):
        # A random model never closes its thoughts: all that it says are such.
        plain = chat()["choices"][0]["message"]["content"]
        message = chat(client=thinker)["choices"][0]["message"]
        assert message["reasoning_content"] == message["reasoning"] == plain.strip()
        assert not message["content"]
        part = put_together(stream(client=thinker))[0]
        assert part["reasoning"] == plain.strip()
        assert part["content"] == ""
        hidden = chat(client=thinker, include_reasoning=False)["choices"][0]["message"]
        assert "reasoning" not in hidden

    def test_a_form_binds_from_the_first_token(self, chat, thinker):
        form = {"choice": ["yes"]}
        answer = chat(client=thinker, structured_outputs=form, ignore_eos=False)["choices"][0]
        assert answer["message"]["content"] == "yes"


def test_unknown_parsers_and_templates_are_refused_at_start(live):
    from runtime.core.entrypoints.server.args import ServerArgs
    from runtime.core.entrypoints.server.context import ServerContext
    from runtime.core.errors import ConfigError

    for flags, text in (
        ({"tool_call_parser": "absent"}, "known: hermes"),
        ({"reasoning_parser": "absent"}, "known: deepseek_r1"),
        ({"enable_auto_tool_choice": True}, "needs --tool-call-parser"),
        ({"chat_template": "/no/such.jinja"}, "no such file"),
    ):
        with pytest.raises(ConfigError, match=text):
            ServerContext.create(live.llm, ServerArgs(**flags))
