"""Row 9: tokenizers of five families, trained here on one paragraph, run by Hugging Face's library."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from typing import Any

import jinja2
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)

CORPUS = """The quick brown fox jumps over the lazy dog, and the lazy dog does not mind at all.
Numbers such as 12345 and 67890, prices of $9.99, and names like Müller, Ångström or Zoë.
def forward(self, x): return self.linear(x) + self.bias  # a line of code
日本語のテスト。中文测试。 Русский текст. emoji 🎉 🌈 ✨ and a family 👨‍👩‍👧.
It's a user's dog; they've seen that she'll come, hasn't she?"""
STRINGS = [
    "Hello, world!",
    "The quick brown fox jumps over the lazy dog. " * 3,
    "日本語のテスト 🎉 émoji",
    "e\u0301moji in two code points",
    "\n\tindented\n  text\n",
    "def foo(x):\n    return x + 1",
    "<|begin_of_text|>Hello<|end_of_text|>",
    "[CLS] sentence A [SEP] sentence B [SEP]",
    "",
    "a",
    "   leading and trailing   ",
    "Mixed 123 with NUMBERS 4567 and symbols !@#$%^&*()",
    "Newline\n\n\nthree",
    "Tab\ttab\ttab",
    "Quote \"double\" and 'single' and `backtick`",
    "they've, it's, she'll, I'M",
    "中文测试 with English mixed",
    "Repeating aaaaaaaaaaaa and bbbbbbbbbbbb",
    "A family 👨‍👩‍👧 and 🌈🌈🌈",
    "no-break\u00a0space and zero\u200bwidth",
]
MESSAGES = [
    {"role": "system", "content": "You are a helpful assistant."},
    {"role": "user", "content": "What is the capital of France?  "},
    {"role": "assistant", "content": "Paris."},
]
LLAMA_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<|start_header_id|>{{ message['role'] }}"
    "<|end_header_id|>\n\n{{ message['content'] | trim }}<|eot_id|>{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
CHATML_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + "
    "message['content'] + '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def make() -> dict[str, Any]:
    """Return tokenizer, strings, ids, decoded texts and rendered chats of each family."""
    files: dict[str, Any] = {}
    for family, (tokenizer, template, bos, eos) in list_families().items():
        special = [tokenizer.encode(text).ids for text in STRINGS]
        plain = [tokenizer.encode(text, add_special_tokens=False).ids for text in STRINGS]
        files |= {
            f"{family}/tokenizer.json": json.loads(tokenizer.to_str()),
            f"{family}/strings.json": STRINGS,
            f"{family}/token_ids.json": {
                "encode_with_special": special,
                "encode_no_special": plain,
            },
            f"{family}/decoded.json": {
                "decode_with_special_keep": decode(tokenizer, special, skip=False),
                "decode_with_special_skip": decode(tokenizer, special, skip=True),
                "decode_no_special": decode(tokenizer, plain, skip=False),
            },
            f"{family}/chat_template.json": render_chat(template, bos, eos),
        }
    return files


def decode(tokenizer: Tokenizer, ids: list[list[int]], *, skip: bool) -> list[str]:
    """Decode each list of ids."""
    return [tokenizer.decode(one, skip_special_tokens=skip) for one in ids]


def render_chat(template: str, bos: str, eos: str) -> dict[str, Any]:
    """Render the messages as transformers does: Jinja with trimmed blocks."""
    if not template:
        return {"has_chat_template": False}
    compiled = jinja2.Environment(trim_blocks=True, lstrip_blocks=True).from_string(template)  # noqa: S701 - plain text
    words = {"messages": MESSAGES, "bos_token": bos, "eos_token": eos}
    return {
        "has_chat_template": True,
        "messages": MESSAGES,
        "template": template,
        "bos_token": bos,
        "eos_token": eos,
        "rendered_no_generation_prompt": compiled.render(**words, add_generation_prompt=False),
        "rendered_with_generation_prompt": compiled.render(**words, add_generation_prompt=True),
    }


def list_families() -> dict[str, tuple[Tokenizer, str, str, str]]:
    """List tokenizer, chat template and its two tokens by family."""
    llama = train_bytes(["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"])
    llama.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(
                single="<|begin_of_text|> $A",
                special_tokens=[("<|begin_of_text|>", llama.token_to_id("<|begin_of_text|>"))],
            ),
        ]
    )
    gpt2 = train_bytes(["<|endoftext|>"])
    smollm = train_bytes(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    smollm.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    return {
        "llama3": (llama, LLAMA_TEMPLATE, "<|begin_of_text|>", "<|eot_id|>"),
        "clip": (train_clip(), "", "", ""),
        "bert": (train_bert(), "", "", ""),
        "gpt2": (gpt2, "", "", ""),
        "smollm": (smollm, CHATML_TEMPLATE, "<|im_start|>", "<|im_end|>"),
    }


def train_bytes(special: list[str]) -> Tokenizer:
    """Train pairs of bytes, as GPT-2 does."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    vocab, merges = learn_pieces(tokenizer, [*special, *list_bytes()], 400)
    tokenizer.model = models.BPE(vocab, merges)
    tokenizer.add_special_tokens(special)
    return tokenizer


def train_clip() -> Tokenizer:
    """Train CLIP's kind: lower case, a mark at the end of each word."""
    start, end = special = ["<|startoftext|>", "<|endoftext|>"]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace("  ", " "), normalizers.Lowercase()]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    marked = [f"{one}</w>" for one in list_bytes()]
    alphabet = [*special, *list_bytes(), *marked]
    vocab, merges = learn_pieces(tokenizer, alphabet, 700, suffix="</w>")
    tokenizer.model = models.BPE(vocab, merges, end_of_word_suffix="</w>", unk_token=end)
    tokenizer.add_special_tokens(special)
    tokenizer.post_processor = processors.RobertaProcessing(
        (end, tokenizer.token_to_id(end)),
        (start, tokenizer.token_to_id(start)),
        trim_offsets=False,
        add_prefix_space=False,
    )
    return tokenizer


def train_bert(pad_to: int = 0) -> Tokenizer:
    """Train BERT's kind: word pieces, lower case without accents; padded if ``pad_to``."""
    tokenizer = Tokenizer(models.WordPiece())
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocab, _ = learn_pieces(tokenizer, special, 250, prefix="##")
    tokenizer.model = models.WordPiece(vocab, unk_token="[UNK]")  # noqa: S106 - a word
    tokenizer.add_special_tokens(special)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        special_tokens=[(word, tokenizer.token_to_id(word)) for word in ("[CLS]", "[SEP]")],
    )
    if pad_to:
        tokenizer.enable_padding(length=pad_to)
    return tokenizer


def list_bytes() -> list[str]:
    """List the character that stands for each byte, in one order."""
    return sorted(pre_tokenizers.ByteLevel.alphabet())


def learn_pieces(
    tokenizer: Tokenizer, first: list[str], size: int, *, prefix: str = "", suffix: str = ""
) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Merge the most frequent pair of pieces again and again, of equal ones the last by name.

    The library's own trainers order pieces with a prefix or suffix by chance.

    Args:
        tokenizer: Its normalizer and pre-tokenizer split the corpus into words.
        first: The first pieces; the corpus' characters follow.
        size: Largest number of pieces.
        prefix: Mark of a piece inside a word.
        suffix: Mark of a piece at the end of a word.

    Returns:
        The vocabulary, and the pairs in the order in which they were merged.
    """
    words: Counter[tuple[str, ...]] = Counter()
    for line in CORPUS.splitlines():
        text = tokenizer.normalizer.normalize_str(line) if tokenizer.normalizer else line
        for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(text):
            inner = [word[0], *(prefix + one for one in word[1:])]
            words[(*inner[:-1], inner[-1] + suffix)] += 1
    pieces = [*first, *sorted({piece for word in words for piece in word})]
    vocab = {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}
    merges: list[tuple[str, str]] = []
    while len(vocab) < size:
        pairs: Counter[tuple[str, str]] = Counter()
        for word, times in words.items():
            for pair in pairwise(word):
                pairs[pair] += times
        if not pairs:
            break
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        joined = best[0] + best[1].removeprefix(prefix)
        merges.append(best)
        vocab.setdefault(joined, len(vocab))
        merged: Counter[tuple[str, ...]] = Counter()
        for word, times in words.items():
            merged[join_pairs(word, best, joined)] += times
        words = merged
    return vocab, merges


def join_pairs(word: tuple[str, ...], pair: tuple[str, str], joined: str) -> tuple[str, ...]:
    """Put ``joined`` in the place of each ``pair`` of a word's pieces, from the left."""
    pieces: list[str] = []
    for piece in word:
        if pieces and (pieces[-1], piece) == pair:
            pieces[-1] = joined
        else:
            pieces.append(piece)
    return tuple(pieces)
