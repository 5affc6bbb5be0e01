"""Weights that engines read, all from one GGUF file, so that they hold the same numbers.

Usage: ``python -m benchmarks.peers.derive SOURCE.gguf FOLDER`` with gguf, torch and transformers.
What is there already is left as it is.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

GGUF_TYPES = ("F32", "F16", "BF16", "Q8_0", "Q4_0")
DIRECTORIES = ("float32", "bfloat16")


def derive(source: Path, folder: Path) -> None:
    """Make every file and directory that is missing, each whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in GGUF_TYPES:
        _make(folder / f"model.{name}.gguf", lambda path, name=name: requantise(source, path, name))
    for dtype in DIRECTORIES:
        _make(folder / f"hf-{dtype}", lambda path, dtype=dtype: to_directory(source, path, dtype))


def _make(target: Path, write: Callable[[Path], None]) -> None:
    if target.exists():
        return
    partial = target.with_name(f"partial-{target.name}")
    if partial.is_dir():
        shutil.rmtree(partial)
    write(partial)
    partial.replace(target)
    print(f"made {target}", file=sys.stderr)


def requantise(source: Path, target: Path, name: str) -> None:
    """A GGUF file whose matrices have another type; vectors are float32, as usual."""
    import gguf

    reader = gguf.GGUFReader(source)
    wanted = gguf.GGMLQuantizationType[name]
    architecture = reader.fields["general.architecture"].contents()
    writer = gguf.GGUFWriter(target, architecture)
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name in (
            "general.architecture",
            "general.file_type",
            "general.quantization_version",
        ):
            continue
        kind = field.types[0]
        inner = field.types[-1] if kind is gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kind, inner)
    writer.add_file_type(gguf.LlamaFileType["ALL_F32" if name == "F32" else f"MOSTLY_{name}"])
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        own = wanted if values.ndim > 1 else gguf.GGMLQuantizationType.F32
        writer.add_tensor(tensor.name, gguf.quants.quantize(values, own), raw_dtype=own)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def to_directory(source: Path, target: Path, dtype: str) -> None:
    """A Hugging Face directory with dense safetensors and the tokenizer."""
    import torch
    import transformers

    options = {"gguf_file": source.name}
    loaded = transformers.AutoModelForCausalLM.from_pretrained(
        source.parent, dtype=torch.float32, **options
    )
    # A model that came from a GGUF file refuses to be saved: its numbers go into a fresh one.
    config = loaded.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.load_state_dict(loaded.state_dict())
    model.to(getattr(torch, dtype)).save_pretrained(target)
    transformers.AutoTokenizer.from_pretrained(source.parent, **options).save_pretrained(target)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    derive(Path(sys.argv[1]), Path(sys.argv[2]))
