import pytest

from runtime.core.errors import RequestError
from runtime.core.tokenizer.chat_template import ChatTemplate

CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Grüße <b> & 'you'?"},
    {"role": "assistant", "content": " Yes, "},
]

TEMPLATES = [
    # Blocks on lines of their own leave no blank lines.
    "{% for m in messages %}\n  {% if m.role != 'system' %}\n[{{ m.role }}] {{ m.content }}\n"
    "  {% endif %}\n{% endfor %}",
    "{{ messages | tojson }}",
    "{{ messages[1] | tojson(indent=2) }}",
    "{% for m in messages %}{% if loop.index == 2 %}{% break %}{% endif %}{{ m.role }}{% endfor %}",
    "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}|{% endfor %}",
    "{% set ns = namespace(n=0) %}{% for m in messages %}{% generation %}{% set ns.n = ns.n + 1 %}"
    "{% endgeneration %}{% endfor %}{{ ns.n }}",
    "{{ strftime_now('%Y') }}{{ add_generation_prompt }}",
    "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}</>{% endfor %}",
    "{{ messages[0].get('missing', 'none') }}{{ undefined_name is defined }}{{ bos_token }}",
    "{% for m in messages %}{% if m.tool_calls is defined %}tool{% endif %}{% endfor %}",
]


def _transformers(template, **kwargs):
    utils = pytest.importorskip("transformers.utils.chat_template_utils")
    rendered, _ = utils.render_jinja_template([CHAT], chat_template=template, **kwargs)
    return rendered[0]


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("prompt", [True, False])
def test_renders_as_transformers_does(template, prompt):
    kwargs = {"add_generation_prompt": prompt, "bos_token": "<s>"}
    assert ChatTemplate(template).render(CHAT, **kwargs) == _transformers(template, **kwargs)


@pytest.mark.parametrize("template", [TEMPLATES[0], TEMPLATES[7]])
def test_goes_on_with_the_last_message_as_transformers_does(template):
    kwargs = {"add_generation_prompt": False, "continue_final_message": True}
    text = ChatTemplate(template).render(CHAT, **kwargs)
    assert text == _transformers(template, **kwargs)
    assert text.rstrip().endswith("Yes,")


def test_goes_on_with_the_last_part_of_a_message():
    template = "{% for m in messages %}{{ m.content[-1].text }}</>{% endfor %}"
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    chat = [{"role": "assistant", "content": parts}]
    text = ChatTemplate(template).render(
        chat, add_generation_prompt=False, continue_final_message=True
    )
    assert text == "two"
    assert parts[-1]["text"] == "two", "the caller's messages stay as they were"


@pytest.mark.parametrize(
    ("template", "chat", "prompt", "message"),
    [
        ("x", CHAT, True, "exclude each other"),
        ("x", CHAT, False, "leaves out the last message"),
        ("x", [], False, "needs a last message with text"),
        ("x", [{"role": "assistant", "tool_calls": []}], False, "needs a last message with text"),
    ],
)
def test_cannot_go_on(template, chat, prompt, message):
    with pytest.raises(RequestError, match=message):
        ChatTemplate(template).render(
            chat, add_generation_prompt=prompt, continue_final_message=True
        )


def test_null_fields_are_absent():
    template = "{{ 'content' in messages[0] }}"
    chat = [{"role": "assistant", "content": None}]
    assert ChatTemplate(template).render(chat, add_generation_prompt=False) == "False"


def test_a_template_refuses_in_its_own_words():
    template = "{{ raise_exception('Roles must alternate: user/assistant') }}"
    with pytest.raises(RequestError, match=r"^Roles must alternate: user/assistant$") as error:
        ChatTemplate(template).render(CHAT, add_generation_prompt=True)
    assert error.value.param == "messages"


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ messages[0].content + 1 }}", "failed on these messages: TypeError"),
        ("{{ messages[9].content.x }}", "failed on these messages: UndefinedError"),
        ("{% for %}", r"not valid Jinja: .* \(line 1\)"),
        ("{% generation %}", "not valid Jinja"),
    ],
)
def test_a_template_that_fails(template, message):
    with pytest.raises(RequestError, match=message):
        ChatTemplate(template).render(CHAT, add_generation_prompt=True)


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.append(1) }}",
        "{% set _ = messages[0].update({'a': 1}) %}",
    ],
)
def test_templates_are_sandboxed(template):
    with pytest.raises(RequestError, match="SecurityError"):
        ChatTemplate(template).render(CHAT, add_generation_prompt=True)
