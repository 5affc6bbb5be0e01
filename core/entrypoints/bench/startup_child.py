"""One start of an engine, in a process of its own: ``python -m …bench.startup_child``.

Reads the arguments of ``LLM`` as a JSON object from standard input. Prints ``ready`` when the
engine is, ``token`` when it has generated one, and then a JSON object: the process's peak resident
size in bytes, and what the engine ran on.
"""

from __future__ import annotations

import json
import os
import sys

READY, TOKEN = "ready", "token"
_PROMPT = (1, 2, 3, 4, 5, 6, 7, 8)


def main() -> int:
    """Start, generate one token and report."""
    # Results have a stream of their own: whatever else is printed goes to stderr.
    with os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1) as results:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        arguments = json.load(sys.stdin)
        from runtime.core.entrypoints.llm import LLM
        from runtime.core.errors import RuntimeUserError
        from runtime.core.sampling.params import SamplingParams

        try:
            with LLM(**arguments) as llm:
                print(READY, file=results)
                params = SamplingParams(temperature=0.0, max_tokens=1, detokenize=False)
                llm.generate({"prompt_token_ids": list(_PROMPT)}, params, use_tqdm=False)
                print(TOKEN, file=results)
                # Not before: what only this measurement imports must not count.
                from runtime.core.platform.host import HostMemory

                peak = HostMemory().peak()
                from runtime.core.entrypoints.bench.report import platform_facts

                facts = {"peak_rss_bytes": peak, "platform": platform_facts(llm)}
                print(json.dumps(facts), file=results)
        except RuntimeUserError as error:
            print(f"runtime: error: {error}", file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
