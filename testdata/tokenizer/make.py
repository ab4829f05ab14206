"""Makes the tokenizers of this folder and what the library `tokenizers` makes of some texts.

Usage: python make.py    (with the packages of tests/interop/requirements.txt)
"""

import json
import os
import random
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../tests/interop"))

import tokenizer_corpus as corpus  # noqa: E402


def main():
    tokenizers = {
        "qwen": corpus.qwen(500),
        "llama3": corpus.llama3(500),
        # Prepend and Replace, byte fallback; Metaspace at the first word alone; digits apart, unknown tokens.
        "llama2": corpus.llama_like(3),
        "metaspace": corpus.llama_like(16),
        "unknown": corpus.llama_like(8),
        "odd_added": corpus.train(corpus.QWEN_PATTERN, 300, corpus.ODD_ADDED, corpus.normalizers.NFC()),
    }
    rows = corpus.texts(7, 1100)
    rows = rows[:6] + random.Random(1).sample(rows[6:], 250)
    for name, tokenizer in tokenizers.items():
        texts = rows if name in ("qwen", "llama3", "odd_added") else rows[::3]
        folder = os.path.join(HERE, name)
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "tokenizer.json"), "w", encoding="ascii") as out:
            json.dump(json.loads(tokenizer.to_str()), out, separators=(",", ":"))
            out.write("\n")
        expected = []
        for text in texts:
            ids = tokenizer.encode(text, add_special_tokens=True).ids
            expected.append({"text": text, "ids": ids, "decoded": tokenizer.decode(ids, skip_special_tokens=True)})
        rng = random.Random(2)
        for _ in range(60):
            ids = [rng.randrange(tokenizer.get_vocab_size() + 2) for _ in range(rng.randrange(9))]
            expected.append({"ids": ids, "decoded": tokenizer.decode(ids, skip_special_tokens=True)})
        with open(os.path.join(folder, "expected.json"), "w", encoding="ascii") as out:
            out.write("[\n" + ",\n".join(json.dumps(row) for row in expected) + "\n]\n")


if __name__ == "__main__":
    main()
