"""An example of out-of-tree models: a new architecture, and an override of a native one."""

runtime_plugin_api = (1, 0)


def register() -> None:
    """Entry point: register names. The models are imported when a checkpoint needs them."""
    from runtime import ModelRegistry

    ModelRegistry.register_model(
        "ParallelLlamaForCausalLM", "parallel_llama.parallel:ParallelLlamaForCausalLM"
    )
    ModelRegistry.register_model("LlamaForCausalLM", "parallel_llama.capped:CappedLlamaForCausalLM")
