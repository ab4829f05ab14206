"""Texts in many scripts, and tokenizers trained on them, for tokenizer_interop.py and testdata/tokenizer/make.py."""

import json
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
         ("[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+", "isolated"), (r"\p{Han}+", "isolated"), (r"\p{N}", "isolated")]

WORDS = {
    "latin": [
        "the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "It's", "we'll", "THEY'RE",
        "don't", "I'd", "na\xefve", "caf\xe9", "Stra\xdfe", "\xc5se", "\u0153uvre", "x=1", "solve",
        "equation", "therefore", "answer", "is", "boxed",
    ],
    "code": [
        "def f(x):\n    return x**2\n", "for (int i = 0; i < n; ++i) {\r\n\t\tsum += a[i];\r\n}",
        "#include <a.h>", "\\boxed{\\frac{1}{2}}", "{\"key\": [1, 2.5e-3, null]}",
        "https://example.org/a?b=c&d=%20e", "<|im_start|>", "<|im_end|>", "<think>", "</think>",
        "x_{n+1}=\\sqrt[3]{y}",
    ],
    "chinese": [
        "\u7684", "\u4e00\u4e2a", "\u8bc1\u660e", "\u6570\u5b66", "\u9898\u76ee", "\u6211\u4eec",
        "\u4f60\u597d\uff0c\u4e16\u754c\uff01", "\u4e09\u89d2\u5f62", "\u65b9\u7a0b\u7684\u89e3\u4e3a",
        "\u300c\u5f15\u7528\u300d", "\uff13\uff12\uff11", "\u9f98",
    ],
    "arabic": [
        "\u0627\u0644\u0633\u0644\u0627\u0645", "\u0639\u0644\u064a\u0643\u0645",
        "\u0643\u0650\u062a\u064e\u0627\u0628\u064c", "\u0627\u0644\u0639\u062f\u062f", "\u0661\u0662\u0663",
        "\u062d\u0644", "\u0627\u0644\u0645\u0633\u0623\u0644\u0629", "\u0644\u0627", "\u0625\u0644\u0647",
    ],
    "hindi": [
        "\u0928\u092e\u0938\u094d\u0924\u0947", "\u0926\u0941\u0928\u093f\u092f\u093e",
        "\u0917\u0923\u093f\u0924", "\u0915\u094d\u0937\u0924\u094d\u0930\u093f\u092f", "\u0967\u0968\u0969",
        "\u0939\u093f\u0928\u094d\u0926\u0940", "\u092a\u094d\u0930\u0936\u094d\u0928",
    ],
    "korean": [
        "\uc548\ub155\ud558\uc138\uc694", "\uc138\uacc4", "\uc218\ud559", "\ubb38\uc81c", "\uac01", "\ud7a3",
        "\ud55c\uad6d\uc5b4", "\ud55c\uae00",
    ],
    "other": [
        "\u041f\u0440\u0438\u0432\u0435\u0442", "\u043c\u0438\u0440",
        "\u03b5\u03bb\u03bb\u03b7\u03bd\u03b9\u03ba\u03ac", "\u05e9\u05dc\u05d5\u05dd",
        "\u0e44\u0e17\u0e22\u0e41\u0e25\u0e19\u0e14\u0e4c", "\u10e5\u10d0\u10e0\u10d7\u10e3\u10da\u10d8",
        "\u0540\u0561\u0575\u0565\u0580\u0565\u0576", "\u1230\u120b\u121d", "\u0f56\u0f7c\u0f51",
        "\u1781\u17d2\u1798\u17c2\u179a", "\u0ba4\u0bae\u0bbf\u0bb4\u0bcd", "\u0130stanbul", "\u01c5",
        "\u02bcn", "\ufb01",
    ],
    "emoji": [
        "\U0001f44d", "\U0001f469\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466",
        "\U0001f3f3\ufe0f\u200d\U0001f308", "\U0001f44b\U0001f3fd", "\U0001f1e9\U0001f1ea", "1\ufe0f\u20e3",
        "\u263a\ufe0f", "\U0001fae0",
    ],
    "marks": [
        "e\u0301", "a\u0323\u0307", "a\u0307\u0323", "q\u0307\u0323", "\u0301x", "o\u0302\u0301", "\xc5",
        "\xf6\u0304", "\u1112\u1161\u11ab", "\u0915\u093c", "\ufdfa", "\u212b", "\u2126", "\u0344", "\u0f73",
        "\u1d15e", "x\u0315\u0300\u05ae",
    ],
    "space": [
        " ", "  ", "   ", "\n", "\n\n", "\r\n", "\r", "\t", " \n", "\n ", "\xa0", "\u3000", "\u2028", "\x85",
        "\u200b", "\u180e", "\u1680", "\x0b", "\x0c", "\ufeff", "\u200d", " \t \n\t ",
    ],
    "control": [
        "\x00", "\x01", "\x1b[0m", "\x1c", "\x1f", "\x7f", "\x80", "\ufffd", "\uffff", "\xad",
    ],
    "digits": [
        "0", "12", "123", "1234", "12345678901", "3.14159", "1,000,000", "\xbd", "\u216b", "\xb2", "\u0663",
        "\u0be7",
    ],
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
    rows = ["", " ", "\n", "a", "\xe9", "<|im_start|>user\n\\boxed{3}<|im_end|>\n<|im_start|>assistant\n<think>\n"]
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
            rows.append("".join(rng.choice("aab bn\n\r\t '.1,<|>\xe9\xe0A") for _ in range(rng.randrange(1, 40))))
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
             AddedToken("caf\xe9", special=False, normalized=True),
             AddedToken("cafe\u0301s", special=False, normalized=True),
             AddedToken("<ab", special=False, normalized=False), AddedToken("ab", special=False, normalized=False),
             AddedToken("abab", special=True, normalized=False), AddedToken("\n", special=False, normalized=True),
             AddedToken(" x", special=False, normalized=False), AddedToken("\u9898", special=True, normalized=True)]


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


def random_added(rng, content):
    """Any flags, but none that the finder of strips tells apart."""
    return AddedToken(content, lstrip=rng.random() < .3, rstrip=rng.random() < .3, single_word=rng.random() < .2,
                      normalized=rng.random() < .5, special=rng.random() < .5)


def llama_like(seed):
    """A SentencePiece BPE as converters write it, with settings by chance: how a space is written and where one is put
    before, byte fallback, unknown tokens, digits, decoders, added tokens."""
    rng = random.Random(seed)
    mark = "\u2581"
    style = rng.choice(["legacy", "metaspace", "gemma"])
    scheme = rng.choice(["always", "first", "never"])
    split = rng.random() < .5
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=rng.random() < .5))
    steps = []
    if rng.random() < .3:
        steps.append(normalizers.NFC())
    if style == "legacy":
        steps += [normalizers.Prepend(mark), normalizers.Replace(" ", mark)]
    elif style == "gemma":
        steps.append(normalizers.Replace(" ", mark))
    if steps:
        tokenizer.normalizer = normalizers.Sequence(steps)
    cuts = []
    if rng.random() < .3:
        cuts.append(pre_tokenizers.Digits(individual_digits=rng.random() < .5))
    if style == "metaspace":
        cuts.append(pre_tokenizers.Metaspace(mark, prepend_scheme=scheme, split=split))
    elif style == "gemma" and rng.random() < .5:
        cuts.append(pre_tokenizers.Split(mark, "merged_with_previous"))
    if cuts:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(cuts)
    training = texts(seed, 300)
    trainer = trainers.BpeTrainer(vocab_size=500, special_tokens=["<unk>", "<s>", "</s>"], show_progress=False,
                                  limit_alphabet=120)
    tokenizer.train_from_iterator(training, trainer)
    data = json.loads(tokenizer.to_str())
    vocab = data["model"]["vocab"]
    if rng.random() < .7:
        data["model"]["byte_fallback"] = True
        for byte in range(256):
            if rng.random() < .98:
                vocab.setdefault(f"<0x{byte:02X}>", len(vocab))
    data["model"]["ignore_merges"] = rng.random() < .3
    if style == "metaspace" and rng.random() < .6:
        data["decoder"] = {"type": "Metaspace", "replacement": mark, "prepend_scheme": scheme, "split": split}
    else:
        data["decoder"] = {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": mark}, "content": " "}, {"type": "ByteFallback"},
            {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": rng.choice([0, 1, 2]), "stop": 0}]}
    tokenizer = Tokenizer.from_str(json.dumps(data))
    tokenizer.add_tokens([random_added(rng, content) for content in ("<a>", "[TOOL]", "ab c", "\u00e9x", "<|im_end|>")])
    if rng.random() < .5:
        tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return tokenizer
