"""Tokenizers of both families, trained here on a few lines of text."""

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from runtime.core.tokenizer.gguf import TokenType

CORPUS = [
    "The quick brown fox jumps over the lazy dog, doesn't it? It's 12345 o'clock.",
    "def f(x):\n    return x ** 2  # squares\n\n\nclass A:\n\tpass\n",
    "你好，世界！ 안녕하세요 세계 こんにちは世界 Привет, мир! مرحبا بالعالم",
    "Hello hello hello world world the the the of of and and in in to to",
] * 3

SAMPLES = [
    "",
    "Hello world",
    " leading and trailing  ",
    "a\n\n\n  b\t\tc\r\n",
    "你好，世界！こんにちは 안녕하세요 Привет مرحبا",
    "family 👩‍👩‍👧‍👦 flag 🇩🇪 accents é́ maths 𝔘𝔫𝔦",
    "def f(x):\n    return x**2 # 12345 67",
    "<|user|>hi<|end|> <s>there</s>",
    "don't we'll I'M IT'S",
    "\u200b\u00a0x\u3000y",
    "ⅷ½²½ 999999",
    "   ",
]

TEMPLATE = (
    "{% for m in messages %}<|user|>{{ m['role'] }}: {{ m['content'] }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|user|>assistant: {% endif %}"
)


@pytest.fixture(scope="session")
def samples():
    """Texts of many kinds."""
    return SAMPLES


@pytest.fixture(scope="session")
def byte_level():
    """A byte-level BPE pipeline with BOS: ``byte_level()`` makes a new one."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    special = ["<s>", "</s>", "<|user|>", "<|end|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=420, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    backend.train_from_iterator(CORPUS, trainer)
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 0)]
    )
    text = backend.to_str()
    return lambda: Tokenizer.from_str(text)


@pytest.fixture
def tokenizer_dir(tmp_path, byte_level):
    """A directory with a tokenizer: ``tokenizer_dir(config changes) -> path``."""

    def make(**config):
        path = tmp_path / "tokenizer"
        path.mkdir(exist_ok=True)
        byte_level().save(str(path / "tokenizer.json"))
        values = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": "<s>",
            "eos_token": "</s>",
            "chat_template": TEMPLATE,
            **config,
        }
        values = {key: value for key, value in values.items() if value is not None}
        (path / "tokenizer_config.json").write_text(json.dumps(values))
        return path

    return make


@pytest.fixture(scope="session")
def sentencepiece_model(tmp_path_factory):
    """A SentencePiece BPE model with byte fallback: ``(path, processor)``."""
    sentencepiece = pytest.importorskip("sentencepiece")
    path = tmp_path_factory.mktemp("spm")
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([line for text in CORPUS for line in text.split("\n") if line]),
        model_prefix=str(path / "tokenizer"),
        model_type="bpe",
        vocab_size=480,
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        character_coverage=0.98,
        user_defined_symbols=["<|user|>", "<|end|>"],
        minloglevel=2,
    )
    model = path / "tokenizer.model"
    return model, sentencepiece.SentencePieceProcessor(model_file=str(model))


@pytest.fixture(scope="session")
def sentencepiece_metadata(sentencepiece_model):
    """What a GGUF file says of that model, as llama.cpp's converter writes it."""
    _, processor = sentencepiece_model
    types = []
    for token_id in range(processor.get_piece_size()):
        piece = processor.id_to_piece(token_id)
        if processor.is_unknown(token_id):
            types.append(TokenType.UNKNOWN)
        elif processor.is_control(token_id):
            types.append(TokenType.CONTROL)
        elif processor.is_byte(token_id):
            types.append(TokenType.BYTE)
        else:
            user = piece in ("<|user|>", "<|end|>")
            types.append(TokenType.USER_DEFINED if user else TokenType.NORMAL)
    size = range(processor.get_piece_size())
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": [processor.id_to_piece(i) for i in size],
        "tokenizer.ggml.scores": [processor.get_score(i) for i in size],
        "tokenizer.ggml.token_type": [int(kind) for kind in types],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
    }


@pytest.fixture(scope="session")
def byte_level_metadata(byte_level):
    """What a GGUF file says of the byte-level tokenizer."""
    model = json.loads(byte_level().to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    special = {"<s>", "</s>", "<|user|>", "<|end|>"}
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.merges": [" ".join(pair) for pair in model["merges"]],
        "tokenizer.ggml.token_type": [
            int(TokenType.CONTROL if t in special else TokenType.NORMAL) for t in tokens
        ],
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 1,
        "tokenizer.ggml.add_bos_token": True,
        "tokenizer.chat_template": TEMPLATE,
    }


@pytest.fixture(scope="session")
def somewhere():
    """A path to name in errors."""
    return Path("model.gguf")
