"""train_rows.py KIND ROWS VOCAB: rows for train_bench and train_peer.py, one per line: token ids of
the prompt, a tab, those of the response.

equal   ROWS prompts of 128 tokens, a response of 256 each
ragged  ROWS prompts of 64 to 192 tokens, a response of 32 to 512 each
groups  ROWS / 8 prompts of 128 tokens, eight responses of 32 to 512 tokens to each: what GRPO samples
"""

import random
import sys

kind, rows, vocab = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
rng = random.Random(7)


def tokens(count):
    return " ".join(str(rng.randrange(vocab)) for _ in range(count))


prompt = ""
for row in range(rows):
    if kind != "groups" or row % 8 == 0:
        prompt = tokens(rng.randint(64, 192) if kind == "ragged" else 128)
    print(prompt, tokens(256 if kind == "equal" else rng.randint(32, 512)), sep="\t")
