"""Workloads a to d on a model of Llama-3.1-8B's shape: bfloat16, random weights, greedy.

    python benchmarks/gpu_llama8b.py [--platform NAME] [--workloads bcad] [--attention CLASS]
        [--out FILE]

One JSON line each, the median of three runs after a warm-up, with versions and clocks in it:

- start: importing the package, and building the engine with its graphs
- b: one request, 128 tokens in, 256 out: milliseconds a token, and to the first one
- c: 64 requests, 32 in, 512 out: milliseconds a step
- a: 512 requests, 512 in, 256 out: output tokens a second
- d: 16 requests, 8,192 in, 1 out: prompt tokens a second
"""

import argparse
import json
import random
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "max_position_embeddings": 131072,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-05,
    "rope_theta": 500000.0,
    "rope_scaling": {
        "factor": 8.0,
        "high_freq_factor": 4.0,
        "low_freq_factor": 1.0,
        "original_max_position_embeddings": 8192,
        "rope_type": "llama3",
    },
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "vocab_size": 128256,
}
MAX_MODEL_LEN = 16384
RUNS = 3


def clocks():
    """SM and memory clock in MHz and the driver, as the tool of the driver has them."""
    fields = "clocks.sm,clocks.mem,driver_version"
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.splitlines()[0].strip()


def with_attention(name, backend):
    """A platform that prefers an attention backend, by its class's qualified name."""
    from runtime.core.platform.select import select_platform

    platform = select_platform(name).platform
    policy = type(platform.policy)

    class Preferring(policy):
        def attention_backends(self):
            return [backend, *super().attention_backends()]

    platform.policy = Preferring()
    return platform


class Bench:
    """An engine and what is measured on it."""

    def __init__(self, args):
        self.args = args
        started = time.perf_counter()
        from runtime import LLM, SamplingParams

        self.params_class = SamplingParams
        import torch

        self.torch = torch
        self.import_s = time.perf_counter() - started
        with tempfile.TemporaryDirectory() as folder:
            config = {**CONFIG, "num_hidden_layers": args.layers}
            (Path(folder) / "config.json").write_text(json.dumps(config))
            started = time.perf_counter()
            self.llm = LLM(
                folder,
                platform=(
                    with_attention(args.platform, args.attention)
                    if args.attention
                    else args.platform
                ),
                load_format="dummy",
                skip_tokenizer_init=True,
                dtype="bfloat16",
                max_model_len=MAX_MODEL_LEN,
                enable_prefix_caching=False,
                enforce_eager=args.enforce_eager,
            )
            self.start_s = time.perf_counter() - started
        engine = self.llm.engine.config
        self.write(
            "start",
            import_s=round(self.import_s, 2),
            engine_start_s=round(self.start_s, 2),
            max_num_seqs=engine.scheduler.max_num_seqs,
            max_num_batched_tokens=engine.scheduler.max_num_batched_tokens,
            attention=self.args.attention,
        )

    def write(self, what, **values):
        """One line."""
        import runtime

        line = {
            "what": what,
            "runtime": runtime.__version__,
            "torch": self.torch.__version__,
            "layers": self.args.layers,
            "eager": self.args.enforce_eager,
            **values,
            "clocks_sm_mem_driver": clocks(),
        }
        print(json.dumps(line), flush=True)
        if self.args.out:
            with Path(self.args.out).open("a") as file:
                file.write(json.dumps(line) + "\n")

    def prompts(self, count, length):
        """Random ones, new each time."""
        return [
            {"prompt_token_ids": random.choices(range(10, 128000), k=length)} for _ in range(count)
        ]

    def seconds(self, count, length, output):
        """Time of one batch."""
        prompts = self.prompts(count, length)
        params = self.params_class(
            temperature=0, max_tokens=output, ignore_eos=True, detokenize=False
        )
        started = time.perf_counter()
        outputs = self.llm.generate(prompts, params, use_tqdm=False)
        seconds = time.perf_counter() - started
        assert all(len(one.outputs[0].token_ids) == output for one in outputs)
        return seconds

    def median(self, count, length, output):
        """Median of the runs after a warm-up, and all of them."""
        self.seconds(count, length, min(output, 16))
        every = [self.seconds(count, length, output) for _ in range(RUNS)]
        return statistics.median(every), [round(one, 4) for one in every]

    def b(self):
        """Latency of one request."""
        first, _ = self.median(1, 128, 1)
        whole, every = self.median(1, 128, 256)
        ms = (whole - first) / 255 * 1e3
        self.write(
            "b_latency_bs1",
            seconds=every,
            first_token_ms=round(first * 1e3, 2),
            decode_ms_per_token=round(ms, 3),
        )

    def c(self):
        """Decode of 64."""
        first, _ = self.median(64, 32, 1)
        whole, every = self.median(64, 32, 512)
        self.write(
            "c_decode_bs64",
            seconds=every,
            out_tok_s=round(64 * 512 / whole, 1),
            step_ms=round((whole - first) / 511 * 1e3, 3),
        )

    def a(self):
        """Throughput."""
        whole, every = self.median(512, 512, 256)
        self.write("a_throughput", seconds=every, out_tok_s=round(512 * 256 / whole, 1))

    def d(self):
        """Prefill."""
        whole, every = self.median(16, 8192, 1)
        self.write("d_prefill", seconds=every, prefill_tok_s=round(16 * 8192 / whole, 1))


def main():
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--platform", default="cuda")
    parser.add_argument("--workloads", default="bcad")
    parser.add_argument("--attention", help="backend to prefer, as its module:class")
    parser.add_argument("--layers", type=int, default=CONFIG["num_hidden_layers"])
    parser.add_argument("--enforce-eager", action="store_true")
    parser.add_argument("--out")
    args = parser.parse_args()
    bench = Bench(args)
    for name in args.workloads:
        getattr(bench, name)()
    bench.llm.shutdown()


if __name__ == "__main__":
    main()
