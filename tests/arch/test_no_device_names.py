"""The core and the discovery of plugins name no device, in code, strings or comments."""

import ast
import re

import pytest

FOLDERS = ("core", "plugins")
DEVICES = {
    *("cuda", "rocm", "hip", "nvidia", "amd", "xpu", "hpu", "npu", "tpu", "mps", "musa", "cann"),
    *("gaudi", "habana", "ascend", "neuron", "oneapi", "cudnn", "cublas", "nccl", "rccl", "miopen"),
    *("hipblas", "rocblas", "nvlink", "nvml", "hopper", "blackwell", "flashinfer", "aiter"),
}
ASKING = re.compile(rf"\bis_(?:cpu|null|out_of_tree|(?:{'|'.join(sorted(DEVICES))})\w*)\b", re.I)
CAMEL = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
WORD = re.compile(r"[A-Za-z]+")


def device_names(text):
    """Device names in a text as words, also those inside of identifiers."""
    found = set()
    for word in WORD.findall(text):
        found |= {part.lower() for part in (word, *CAMEL.findall(word))} & DEVICES
    return found | {match.lower() for match in ASKING.findall(text)}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("torch.cuda.is_available()", {"cuda"}),
        ("# faster on ROCm", {"rocm"}),
        ("VLLM_HIP_PATH", {"hip"}),
        ("class CUDAGraphRunner", {"cuda"}),
        ("CudaGraph", {"cuda"}),
        ("cuda12", {"cuda"}),
        ("platform.is_cpu()", {"is_cpu"}),
        ("platform.is_cuda_alike()", {"cuda", "is_cuda_alike"}),
        ("a hippie's relationship with input, champs and camd", set()),
        ("os.cpu_count()", set()),
    ],
)
def test_the_search_finds_names_wherever_they_hide(text, names):
    assert device_names(text) == names


def test_no_device_is_named(sources):
    found = [
        f"{source.name}:{number}: {', '.join(sorted(names))}: {line.strip()}"
        for source in sources(*FOLDERS)
        for number, line in enumerate(source.text.splitlines(), 1)
        if (names := device_names(line))
    ]
    assert found == []


def test_no_file_is_named_after_a_device(sources):
    assert [s.name for s in sources(*FOLDERS) if device_names(s.name)] == []


def who(node):
    """What an expression asks for, where it asks which device or platform this is."""
    match node:
        case ast.Attribute(attr="device_type"):
            return "device_type"
        case ast.Attribute(value=ast.Name(id=owner) | ast.Attribute(attr=owner), attr="type"):
            return "device.type" if "device" in owner else None
        case ast.Attribute(value=ast.Name(id=owner) | ast.Attribute(attr=owner), attr="name"):
            return "platform.name" if "platform" in owner else None
    return None


def comparisons_with_a_device(tree):
    """Lines that compare a device's or a platform's name with a constant."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            constants = any(
                isinstance(inner, ast.Constant) and isinstance(inner.value, str)
                for side in sides
                for inner in ast.walk(side)
            )
            if constants and any(who(side) for side in sides):
                yield node.lineno


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("if platform.device_type == 'toaster': pass", 1),
        ("if x.device.type in ('toaster', 'kettle'): pass", 1),
        ("ok = 'toaster' != self.platform.name", 1),
        ("ok = record.name == platform.name", 0),
        ("ok = x.dtype.name == 'float32'", 0),
    ],
)
def test_the_search_finds_comparisons(code, count):
    assert len(list(comparisons_with_a_device(ast.parse(code)))) == count


def test_nothing_depends_on_which_device_this_is(sources):
    found = [
        f"{source.name}:{line}"
        for source in sources(*FOLDERS)
        for line in comparisons_with_a_device(source.tree)
    ]
    assert found == []
