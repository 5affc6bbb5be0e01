"""Planted faults make the suite fail, with messages that name the culprit; nothing else fails."""

import pytest

OPS, ATTENTION = "runtime.core.testing.suite.test_ops", "runtime.core.testing.suite.test_attention"
DEVICE, GRAPHS = "runtime.core.testing.suite.test_device", "runtime.core.testing.suite.test_graphs"
COLLECTIVES = "runtime.core.testing.suite.test_collectives"
ENGINE = "runtime.core.testing.suite.test_engine"

FAULTS = {
    "faulty-ops": {
        "what": [OPS, "-k", "test_agreement and (float32 or silu)"],
        "found": {
            "a wrong eps": ("rms_norm acme float32", ["op rms_norm, provider acme", "rtol=1e-05"]),
            "a wrong dtype": (
                "silu_and_mul acme bfloat16",
                ["op silu_and_mul, provider acme", "float32", "the op's fake gives torch.bfloat16"],
            ),
            "a wrong sign": ("rotary_embedding acme float32", ["op rotary_embedding", "error"]),
            "an input overwritten": ("write_kv_cache acme float32", ["it writes to 'key'"]),
            "a provider that is gone": (
                "linear acme float32",
                ["op linear, provider acme", "op_priority names it", "not registered"],
            ),
        },
        "also": ["silu_and_mul acme float16"],
    },
    "faulty-attention": {
        "what": [ATTENTION, "-k", "float32 or decode or padded"],
        "found": {
            "a window of one more": (
                "wide-window heads 4/2 x 32, block 16, float32, window 9",
                ["attention backend wide-window", "window 9", "times what rtol="],
            ),
            "an ignored block table": (
                "no-block-table heads 4/2 x 32, block 16, float32",
                ["attention backend no-block-table", "seed"],
            ),
        },
        "also": ["no-block-table", *(f"window {n}" for n in (1, 9, 16)), "wide-window 7"],
    },
    "faulty-memory": {
        "what": [DEVICE],
        "found": {
            "an alias": ("A host copy stays as it was", ["memory.copy_to_host gives an alias"]),
            "no peak": ("The peak counts memory", ["memory.peak grew by 0 bytes"]),
            "no out of memory": (
                "Running out of memory is recognised",
                ["memory.is_out_of_memory does not recognise RuntimeError"],
            ),
            "ones for zeros": ("Large zeroed tensors are zero", ["memory.zeros is not zeroed"]),
            "no seed": ("The same seed gives the same", ["devices.seed"]),
        },
        "also": ["A generator of its own leaves the default one alone"],
    },
    "faulty-graphs": {
        "what": [GRAPHS],
        "found": {"dead graphs": ("A replay does the captured work again", ["a replay gives"])},
        "also": ["Two graphs can be replayed in any order"],
    },
    "faulty-group": {
        "what": [COLLECTIVES],
        "found": {
            "no reduction": ("float32 all_reduce", ["FaultyCommunicator", "worker 0 got"]),
            "no barrier": ("Nobody leaves a barrier", ["FaultyCommunicator", "left the barrier"]),
        },
    },
    "faulty-loading": {
        "what": [ENGINE, "-k", "test_parity and llama and eager"],
        "found": {"another model": ("llama eager", ["transformers has", "whose logit is"])},
    },
}


def failures(done):
    """Cases and reasons of the report's lines of failures."""
    lines = [line for line in done.stdout.splitlines() if line.startswith("platform faulty-")]
    found = [line.partition(": FAIL ")[2] for line in lines]
    return [line for line in found if line]


@pytest.mark.parametrize("platform", list(FAULTS))
def test_planted_faults_are_found_and_named(platform, run_pytest):
    planted = FAULTS[platform]
    done = run_pytest("--runtime-platform", platform, "--pyargs", *planted["what"])
    assert done.returncode == 1, done.stdout + done.stderr
    found = failures(done)
    for fault, (case, words) in planted["found"].items():
        lines = [line for line in found if f" {case}" in line]
        assert lines, f"{fault} is not found: {done.stdout}"
        for word in words:
            assert any(word in line for line in lines), f"{fault}: no {word!r} in {lines}"
    cases = [*(case for case, _ in planted["found"].values()), *planted.get("also", ())]
    assert [line for line in found if not any(f" {case}" in line for case in cases)] == []


def test_a_sound_platform_passes(run_pytest):
    done = run_pytest("--runtime-platform", "sound", "--pyargs", COLLECTIVES, GRAPHS)
    assert done.returncode == 0, done.stdout
    assert "unsupported  the platform captures no graphs" in done.stdout
    assert "all_gather of rows     pass" in done.stdout
