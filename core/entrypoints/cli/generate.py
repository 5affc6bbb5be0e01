"""``runtime generate``: complete prompts offline."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runtime.core.entrypoints.cli.flags import add_engine_flags, engine_args, open_llm
from runtime.core.entrypoints.cli.sampling import add_sampling_flags, sampling_params
from runtime.core.errors import RequestError

if TYPE_CHECKING:
    from runtime.core.engine.outputs import RequestOutput


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "generate",
        allow_abbrev=False,
        help="complete prompts offline",
        description="Complete prompts, batched together, and print the outputs in order.",
    )
    group = parser.add_argument_group("Prompts")
    group.add_argument("--prompt", action="append", default=[], help="A prompt (repeatable)")
    group.add_argument(
        "--prompt-file",
        metavar="FILE",
        help="One prompt a line, or JSON lines with 'prompt' or 'prompt_token_ids' where the name "
        "ends in .jsonl; - is standard input",
    )
    group.add_argument(
        "--chat", action="store_true", help="Put each prompt through the model's chat template"
    )
    parser.add_argument("--json", action="store_true", help="Print a JSON object for each prompt")
    add_sampling_flags(parser, max_tokens=64)
    add_engine_flags(parser)
    parser.set_defaults(run=run, parser=parser)


def run(args: argparse.Namespace) -> int:
    """Generate and print."""
    engine_args(args, args.parser)
    prompts = [*args.prompt, *_read_prompts(args.prompt_file)]
    if not prompts:
        args.parser.error("a prompt is required: --prompt TEXT or --prompt-file FILE")
    conversations = [[{"role": "user", "content": _text_of(p)}] for p in prompts if args.chat]
    with open_llm(args, args.parser) as llm:
        params = sampling_params(args, llm.engine.config.model.generation)
        if args.chat:
            outputs = llm.chat(conversations, params)
        else:
            outputs = llm.generate(prompts, params)
    for prompt, output in zip(prompts, outputs, strict=True):
        text = _text_of(prompt) if args.chat else output.prompt
        print(json.dumps(as_json(output)) if args.json else as_text(output, text), flush=True)
    return 0


def _read_prompts(name: str | None) -> list[Any]:
    """Prompts of a file: lines, or objects where it is JSON lines. Blank lines are passed over."""
    if name is None:
        return []
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(f"--prompt-file {name}: {error}", "prompt_file") from error
    # Not splitlines(), which also cuts at separators that JSON strings and prompts may hold.
    lines = [(n, line) for n, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not name.endswith(".jsonl"):
        return [line for _, line in lines]
    prompts: list[Any] = []
    for number, line in lines:
        try:
            value = json.loads(line)
        except json.JSONDecodeError as error:
            raise RequestError(f"{name}:{number}: not JSON: {error}", "prompt_file") from error
        if not isinstance(value, (str, dict)):
            raise RequestError(
                f"{name}:{number}: neither a string nor an object with 'prompt' or "
                "'prompt_token_ids'",
                "prompt_file",
            )
        prompts.append(value)
    return prompts


def _text_of(prompt: Any) -> str:
    text = prompt.get("prompt") if isinstance(prompt, dict) else prompt
    if not isinstance(text, str):
        raise RequestError("--chat needs prompts that are text", "prompt")
    return text


def as_json(output: RequestOutput) -> dict[str, Any]:
    """What ``--json`` prints of a result; times in seconds."""
    begin, metrics = output.metrics["arrival_time"], output.metrics
    return {
        "request_id": output.request_id,
        "prompt": output.prompt,
        "prompt_token_ids": output.prompt_token_ids,
        "num_cached_tokens": output.num_cached_tokens,
        "outputs": [
            {
                "index": one.index,
                "text": one.text,
                "token_ids": one.token_ids,
                "finish_reason": one.finish_reason,
                "stop_reason": one.stop_reason,
            }
            for one in output.outputs
        ],
        "first_token_s": _seconds(metrics.get("first_token_time"), begin),
        "total_s": _seconds(metrics.get("finished_time"), begin),
    }


def _seconds(end: float | None, begin: float) -> float | None:
    return None if end is None else round(end - begin, 4)


def as_text(output: RequestOutput, prompt: str | None) -> str:
    """What is printed of a result for people."""
    parts = [f"Prompt: {(prompt or str(output.prompt_token_ids)).strip()}"]
    for one in output.outputs:
        text = one.text.strip() if one.text else str(one.token_ids)
        parts.append(f"Output ({one.finish_reason}, {len(one.token_ids)} tokens): {text}")
    return "\n".join(parts) + "\n"
