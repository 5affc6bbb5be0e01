"""The largest step is run for its memory, and leaves nothing behind."""

from runtime import SamplingParams
from runtime.core.runner import profiling
from runtime.platforms.null.platform import NullPlatform


class Profiled(NullPlatform):
    worker_class = "runtime.core.runner.profiling:ProfilingWorker"


def test_it_runs_all_tokens_and_all_requests(tiny_model, load, monkeypatch):
    seen = []
    measure = profiling.ProfilingWorker.peak_activation_bytes

    def peak(self):
        forward = self.runner.model.forward

        def watch(ids, positions, context):
            seen.append((len(ids), int(positions.max().item())))
            return forward(ids, positions, context)

        self.runner.model.forward = watch
        try:
            value = measure(self)
        finally:
            self.runner.model.forward = forward
        assert all(layer.kv_cache is None for layer in self.runner.attention_layers.values())
        seen.append(value)
        return value

    monkeypatch.setattr(profiling.ProfilingWorker, "peak_activation_bytes", peak)
    path = tiny_model("llama")
    options = {"max_model_len": 48, "max_num_batched_tokens": 100, "max_num_seqs": 7}
    llm = load(path, platform=Profiled(), **options)
    assert seen[0] == (100, 47)
    # At least a layer's widest activations: gate and up of all tokens in float32.
    assert seen[1] >= 100 * 2 * llm.engine.core.config.model.hf.intermediate_size * 4
    plain = load(path, platform="null", **options)
    params = SamplingParams(temperature=0, max_tokens=8)
    texts = [
        one.generate([{"prompt_token_ids": [3, 4, 5]}], params, use_tqdm=False)[0]
        for one in (llm, plain)
    ]
    assert texts[0].outputs[0].token_ids == texts[1].outputs[0].token_ids
