"""Texts in many scripts, and tokenizers trained on them, for tokenizer_interop.py and testdata/tokenizer/make.py."""

import random
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

QWEN_PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
                r"|\s*[\r\n]+|\s+(?!\S)|\s+")
LLAMA3_PATTERN = QWEN_PATTERN.replace(r"\p{N}|", r"\p{N}{1,3}|", 1)
O200K_PATTERN = "|".join([
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
# Several splits, one after the other, with scripts spelled out as ranges and as properties.
STEPS = [(r"[\r\n]", "isolated"), (r"\s?\p{L}+", "isolated"), (r"\s?\p{P}+", "merged_with_previous"),
         (r"[一-龥ࠀ-一가-퟿]+", "isolated"), (r"\p{Han}+", "isolated"), (r"\p{N}", "isolated")]

WORDS = {
    "latin": "the quick brown fox jumps over a lazy dog It's we'll THEY'RE don't I'd naïve café Straße Åse œuvre "
             "x=1 solve equation therefore answer is boxed".split(),
    "code": ["def f(x):\n    return x**2\n", "for (int i = 0; i < n; ++i) {\r\n\t\tsum += a[i];\r\n}", "#include <a.h>",
             "\\boxed{\\frac{1}{2}}", "{\"key\": [1, 2.5e-3, null]}", "https://example.org/a?b=c&d=%20e",
             "<|im_start|>", "<|im_end|>", "<think>", "</think>", "x_{n+1}=\\sqrt[3]{y}"],
    "chinese": "的 一个 证明 数学 题目 我们 你好，世界！ 三角形 方程的解为 「引用」 ３２１ 龘".split(),
    "arabic": "السلام عليكم كِتَابٌ العدد ١٢٣ حل المسألة لا إله".split(),
    "hindi": "नमस्ते दुनिया गणित क्षत्रिय १२३ हिन्दी प्रश्न".split(),
    "korean": "안녕하세요 세계 수학 문제 각 힣 한국어".split() + ["한글"],
    "other": "Привет мир ελληνικά שלום ไทยแลนด์ ქართული Հայերեն ሰላም བོད ខ្មែរ தமிழ் İstanbul ǅ ʼn ﬁ".split(),
    "emoji": ["👍", "👩‍👩‍👧‍👦", "🏳️‍🌈", "👋🏽", "🇩🇪", "1️⃣", "☺️", "🫠"],
    "marks": ["e\u0301", "a\u0323\u0307", "a\u0307\u0323", "q\u0307\u0323", "\u0301x", "o\u0302\u0301", "Å", "ö\u0304",
              "\u1112\u1161\u11ab", "\u0915\u093c", "ﷺ", "\u212b", "\u2126", "\u0344", "\u0f73", "\u1d15e", "x\u0315\u0300\u05ae"],
    "space": [" ", "  ", "   ", "\n", "\n\n", "\r\n", "\r", "\t", " \n", "\n ", "\u00a0", "\u3000", "\u2028", "\u0085",
              "\u200b", "\u180e", "\u1680", "\x0b", "\x0c", "\ufeff", "\u200d", " \t \n\t "],
    "control": ["\x00", "\x01", "\x1b[0m", "\x1c", "\x1f", "\x7f", "\u0080", "\ufffd", "\uffff", "\u00ad"],
    "digits": ["0", "12", "123", "1234", "12345678901", "3.14159", "1,000,000", "½", "Ⅻ", "²", "٣", "௧"],
}


def random_points(rng, count):
    """Random assigned code points: 3.11 knows Unicode 14, as the PCRE2 of Debian 12 does."""
    points = []
    while len(points) < count:
        high = rng.choice([0x80, 0x250, 0x3000, 0x10000, 0x20000, 0x110000])
        point = rng.randrange(high)
        if unicodedata.category(chr(point)) not in ("Cn", "Cs"):
            points.append(chr(point))
    return "".join(points)


def sentence(rng):
    parts = []
    for _ in range(rng.randrange(1, 14)):
        kind = rng.choice(list(WORDS))
        parts.append(rng.choice(WORDS[kind]))
        if rng.random() < 0.6:
            parts.append(" ")
    return "".join(parts)


def texts(seed, count):
    rng = random.Random(seed)
    rows = ["", " ", "\n", "a", "é", "<|im_start|>user\n\\boxed{3}<|im_end|>\n<|im_start|>assistant\n<think>\n"]
    rows += [word for words in WORDS.values() for word in words]
    rows += [" " * n for n in range(1, 20)] + ["\n" * n for n in range(1, 9)] + ["a" + " " * 5 + "b", "x \n \n  y"]
    rows += [chr(point) for point in range(0x100)]
    while len(rows) < count:
        choice = rng.random()
        if choice < 0.7:
            rows.append(sentence(rng))
        elif choice < 0.85:
            rows.append(random_points(rng, rng.randrange(1, 30)))
        else:
            rows.append("".join(rng.choice("aab bn\n\r\t '.1,<|>éàA") for _ in range(rng.randrange(1, 40))))
    return rows


QWEN_ADDED = [AddedToken(t, special=True, normalized=False) for t in
              ("<|endoftext|>", "<|im_start|>", "<|im_end|>")] + [
              AddedToken(t, special=False, normalized=False) for t in ("<think>", "</think>")]
LLAMA3_ADDED = [AddedToken(t, special=True, normalized=False) for t in
                ("<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>")]
ODD_ADDED = [AddedToken("<a>", special=True, normalized=False, lstrip=True),
             AddedToken("<b>", special=True, normalized=False, rstrip=True),
             AddedToken("<a><b>", special=False, normalized=False, lstrip=True, rstrip=True),
             AddedToken("fox", special=False, normalized=True, single_word=True),
             AddedToken("café", special=False, normalized=True),
             AddedToken("cafe\u0301s", special=False, normalized=True),
             AddedToken("<ab", special=False, normalized=False), AddedToken("ab", special=False, normalized=False),
             AddedToken("abab", special=True, normalized=False), AddedToken("\n", special=False, normalized=True),
             AddedToken(" x", special=False, normalized=False), AddedToken("题", special=True, normalized=True)]


def train(pattern, vocab_size, added, normalizer=None, seed=1, ignore_merges=False, corpus=None):
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.normalizer = normalizer
    steps = [(pattern, "isolated")] if isinstance(pattern, str) else pattern
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(regex), behavior=behavior) for regex, behavior in steps]
        + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    finish(tokenizer, vocab_size, added, seed, corpus)
    return tokenizer


def finish(tokenizer, vocab_size, added, seed, corpus=None):
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(corpus or texts(seed, 3000), trainer)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    for token in added:
        (tokenizer.add_special_tokens if token.special else tokenizer.add_tokens)([token])


def qwen(vocab_size=2000, corpus=None):
    return train(QWEN_PATTERN, vocab_size, QWEN_ADDED, normalizers.NFC(), corpus=corpus)


def llama3(vocab_size=2000, corpus=None):
    tokenizer = train(LLAMA3_PATTERN, vocab_size, LLAMA3_ADDED, ignore_merges=True, corpus=corpus)
    bos = tokenizer.token_to_id("<|begin_of_text|>")
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A $B",
                                      special_tokens=[("<|begin_of_text|>", bos)])])
    return tokenizer


def gpt2(add_prefix_space=False):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space)
    finish(tokenizer, 1500, ODD_ADDED[:2], 4)
    return tokenizer


def zoo():
    """Every kind, by name."""
    return {
        "qwen": qwen(),
        "llama3": llama3(),
        "o200k": train(O200K_PATTERN, 1500, LLAMA3_ADDED),
        "steps": train(STEPS, 1500, QWEN_ADDED),
        "gpt2": gpt2(),
        "gpt2_prefix": gpt2(add_prefix_space=True),
        "odd_added": train(QWEN_PATTERN, 1200, ODD_ADDED, normalizers.NFC()),
        "odd_added_raw": train(LLAMA3_PATTERN, 1200, ODD_ADDED),
        "bytes": train(QWEN_PATTERN, 256, []),
        **{f"split_{behavior}": train([(r"\s+|[.,]", behavior)], 600, QWEN_ADDED) for behavior in
           ("removed", "merged_with_previous", "merged_with_next", "contiguous")},
    }
