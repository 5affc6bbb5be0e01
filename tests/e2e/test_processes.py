"""Every process has the same plugins, each loaded once, however it was started."""

import json
import os
import subprocess
import sys
from collections import Counter

import pytest

METHODS = ("spawn", "fork", "forkserver")
LOAD_EVENTS = ("import", "register")

CONFIG = {
    "architectures": ["AcmeForCausalLM"],
    "model_type": "llama",
    "hidden_size": 32,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
    "num_key_value_heads": 1,
    "vocab_size": 97,
}

PLUGIN = """
import logging, os

def note(event):
    with open({log!r}, "a") as file:
        file.write(f"{{event}} {name} {{os.getpid()}} {{os.environ['VLLM_PLUGINS']}}\\n")

note("import")

def register():
    note("register")
    logging.getLogger(__name__).info("registered")
    from runtime import ModelRegistry
    ModelRegistry.register_model("AcmeForCausalLM", "runtime.core.models.llama:LlamaForCausalLM")
"""

MAIN = """
import logging, os, sys
from runtime.core.distributed.processes import start_process
from runtime.core.logging import set_up_logging
from runtime.core.models.registry import ModelRegistry
from runtime.core.platform.select import select_platform
from runtime.plugins.manager import default_manager

def say(kind, *words):
    os.write(1, (" ".join(map(str, [kind, os.getpid(), *words])) + "\\n").encode())

def report(number):
    ModelRegistry.resolve_name(["AcmeForCausalLM"])
    logging.getLogger("runtime.worker").info("worker %d", number)
    say("report")

def generate(model):
    from runtime import LLM, SamplingParams
    llm = LLM(model=model, load_format="dummy", skip_tokenizer_init=True, dtype="float32",
              platform="cpu", use_tqdm_on_load=False)
    params = SamplingParams(temperature=0, max_tokens=5, ignore_eos=True, detokenize=False)
    (output,) = llm.generate([{"prompt_token_ids": [1, 2, 3]}], params, use_tqdm=False)
    say("report", *output.outputs[0].token_ids)

def run(processes):
    for process in processes:
        process.join(100)
    return [process.exitcode for process in processes]

if __name__ == "__main__":
    words = sys.argv[1:]
    platform = select_platform("cpu").platform
    if "log" in words:
        set_up_logging()
    if "load" in words:
        default_manager().load_general()
        say("parent")
    if "generate" in words:
        codes = run([start_process(platform, generate, ("tiny",))])
    else:
        codes = run([start_process(platform, report, (n,)) for n in range(2)])
    sys.exit(codes != [0] * len(codes))
"""


@pytest.fixture
def start(tmp_path):
    """Start processes from a fresh interpreter that has two plugins, one of them wanted."""
    log = tmp_path / "events.log"
    for name in ("wanted", "other"):
        (tmp_path / f"acme_{name}.py").write_text(PLUGIN.format(log=str(log), name=name))
        info = tmp_path / f"acme_{name}-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: acme-{name}\nVersion: 1\n")
        entry_point = f"[runtime.general_plugins]\n{name} = acme_{name}:register\n"
        (info / "entry_points.txt").write_text(entry_point)
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "main.py").write_text(MAIN)

    def run(method, *words):
        log.unlink(missing_ok=True)
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("VLLM_")}
        path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
        own = {"VLLM_PLUGINS": "wanted", "VLLM_WORKER_MULTIPROC_METHOD": method}
        done = subprocess.run(
            [sys.executable, "main.py", *words],
            cwd=tmp_path,
            env={**inherited, "PYTHONPATH": path, **own},
            capture_output=True,
            text=True,
            timeout=200,
        )
        assert done.returncode == 0, done.stderr
        done.events = log.read_text().splitlines() if log.exists() else []
        done.reports = [line.split()[1:] for line in done.stdout.splitlines()]
        return done

    return run


@pytest.mark.parametrize("method", METHODS)
def test_each_process_loads_each_plugin_once_and_the_same_ones(start, method):
    done = start(method)
    children = [pid for (pid,) in done.reports]
    assert len(set(children)) == 2
    expected = [f"{event} wanted {pid} wanted" for pid in children for event in LOAD_EVENTS]
    assert Counter(done.events) == Counter(expected)


@pytest.mark.parametrize("method", METHODS)
def test_a_parent_that_has_loaded_them_passes_them_on_or_has_them_loaded_again(start, method):
    done = start(method, "load")
    (parent,), *children = done.reports
    # A forked process begins with its parent's plugins.
    loading = [parent] if method == "fork" else [parent, *(pid for (pid,) in children)]
    expected = [f"{event} wanted {pid} wanted" for pid in loading for event in LOAD_EVENTS]
    assert len(children) == 2
    assert Counter(done.events) == Counter(expected)


@pytest.mark.parametrize("method", METHODS)
def test_an_engine_runs_in_a_process_of_each_kind(start, method):
    done = start(method, "generate")
    ((_, *tokens),) = done.reports
    assert len(tokens) == 5
    assert all(0 <= int(token) < CONFIG["vocab_size"] for token in tokens)
    assert [event.split()[0] for event in done.events] == ["import", "register"]


@pytest.mark.parametrize("method", METHODS)
def test_processes_log_as_their_parent_does(start, method):
    lines = start(method, "log").stderr.splitlines()
    assert sum(line.endswith("[acme_wanted] registered") for line in lines) == 2
    assert sum(" worker " in line for line in lines) == 2
    assert start(method).stderr == ""
