"""Our tokenizer against the library `tokenizers`: ids of a text, and texts of ids.

Usage: python tokenizer_interop.py --bin-dir DIR    (DIR holds tokenizer_probe)

With NXDKIT_TOKENIZERS=FILE:FILE... these tokenizer.json files are compared too.
"""

import json
import os
import random
import subprocess
import tempfile
import time
import unittest

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

import interop
import tokenizer_corpus as corpus



class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def ask(self, command, tokenizer, work):
        with open(self.path("work.json"), "w", encoding="utf-8") as out:
            json.dump(work, out)
        return self.ask_file(command, tokenizer, self.path("work.json"))

    def ask_file(self, command, tokenizer, path):
        done = subprocess.run([interop.program("tokenizer_probe"), command, tokenizer, path],
                              capture_output=True, check=False)
        if done.returncode != 0:
            raise AssertionError(f"{command}: exit code {done.returncode}: {done.stderr.decode()}")
        return json.loads(done.stdout)

    def save(self, tokenizer):
        path = self.path("tokenizer.json")
        tokenizer.save(path)
        return path

    def compare(self, name, tokenizer, rows, path=None):
        path = path or self.save(tokenizer)
        for special in (False, True):
            ours = self.ask("encode", path, {"special": special, "texts": rows})
            for text, ids in zip(rows, ours, strict=True):
                theirs = tokenizer.encode(text, add_special_tokens=special).ids
                self.assertEqual(ids, theirs, f"{name}: special={special} {text!r}")
        self.compare_decode(name, tokenizer, ours, path)

    def compare_decode(self, name, tokenizer, rows, path):
        rng = random.Random(5)
        limit = tokenizer.get_vocab_size()
        rows = rows + [[rng.randrange(limit + 3) for _ in range(rng.randrange(12))] for _ in range(500)]
        for skip in (False, True):
            ours = self.ask("decode", path, {"skip": skip, "ids": rows})
            for ids, text in zip(rows, ours, strict=True):
                self.assertEqual(text, tokenizer.decode(ids, skip_special_tokens=skip), f"{name}: skip={skip} {ids}")


class Exactness(Case):
    def test_every_kind_of_tokenizer(self):
        rows = corpus.texts(99, 6000)
        for name, tokenizer in corpus.zoo().items():
            with self.subTest(name):
                self.compare(name, tokenizer, rows)

    def test_sentencepiece_tokenizers_of_any_settings(self):
        for seed in range(60):
            with self.subTest(seed):
                tokenizer = corpus.llama_like(seed)
                marked = [f"{a}{b}{c}" for a in ("", "x", " ") for b in ("<a>", "[TOOL]", "ab c", "<s>", "<0x0A>")
                          for c in ("", " y", "  ", "\n1234")]
                self.compare(f"seed {seed}: {tokenizer.to_str()[:600]}", tokenizer,
                             corpus.texts(seed, 400) + marked)

    def test_the_class_counts_for_llama(self):
        for seed, (name, settings, model_type) in enumerate([
                ("LlamaTokenizer", {}, "llama"), ("LlamaTokenizerFast", {"legacy": True}, "llama"),
                ("LlamaTokenizerFast", {"legacy": False}, "qwen3"), ("LlamaTokenizer", {"legacy": None}, "llama"),
                ("LlamaTokenizer", {"add_prefix_space": False}, "llama"),
                ("PreTrainedTokenizerFast", {"legacy": False}, "llama")]):
            tokenizer = corpus.llama_like(3)  # with byte fallback
            data = json.loads(tokenizer.to_str())
            for byte in range(256):
                data["model"]["vocab"].setdefault(f"<0x{byte:02X}>", len(data["model"]["vocab"]))
            data["added_tokens"] = data["added_tokens"][:3]
            for token in data["added_tokens"]:
                token["normalized"] = False
            folder = self.path(f"folder{seed}")
            os.mkdir(folder)
            with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as out:
                json.dump(data, out)
            with open(os.path.join(folder, "tokenizer_config.json"), "w", encoding="utf-8") as out:
                json.dump({"tokenizer_class": name, "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>",
                           **settings}, out)
            with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as out:
                json.dump({"model_type": model_type}, out)
            theirs = AutoTokenizer.from_pretrained(folder)
            rows = corpus.texts(seed, 300) + ["<s>a b", "a<s> b</s>", " x", "  x", "<s>", "\n", "</s>\u2581a"]
            ours = self.ask("encode-folder", folder, {"special": False, "texts": rows})
            for text, ids in zip(rows, ours, strict=True):
                with self.subTest(name, settings=str(settings), text=text):
                    self.assertEqual(ids, theirs(text, add_special_tokens=False)["input_ids"])

    def test_digits_before_byte_level(self):
        for individual in (False, True):
            tokenizer = corpus.train("x", 400, [], corpus=["x"])
            tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
                [pre_tokenizers.Digits(individual_digits=individual), pre_tokenizers.ByteLevel(add_prefix_space=False)])
            self.compare(f"digits {individual}", tokenizer, corpus.texts(31, 2500))

    def test_a_merge_that_is_there_twice_and_pairs_as_text(self):
        tokenizer = corpus.qwen(600)
        data = json.loads(tokenizer.to_str())
        merges = data["model"]["merges"]
        data["model"]["merges"] = ["#version: 0.2"] + [" ".join(pair) for pair in merges + merges[5:7]]
        path = self.path("text.json")
        with open(path, "w", encoding="utf-8") as out:
            json.dump(data, out)
        self.compare("merges as text", Tokenizer.from_file(path), corpus.texts(3, 1500), path)

    def test_every_code_point(self):
        tokenizer = corpus.qwen(600)
        path = self.save(tokenizer)
        rows = []
        for begin in range(0, 0x110000, 64):
            points = [chr(p) for p in range(begin, begin + 64) if not 0xd800 <= p < 0xe000]
            known = [c for c in points if corpus.unicodedata.category(c) != "Cn"]
            rows += ["".join(known), " a".join(known), "1\n".join(known)]
            marks = [c for c in points if corpus.unicodedata.combining(c)]
            rows.append("".join("a\u0345" + mark + "\u0323\u0301" for mark in marks))
            rows.append("e" + "".join(reversed(marks)) + "\u0301")
        rows = [row for row in rows if row]
        ours = self.ask("encode", path, {"special": False, "texts": rows})
        theirs = [encoding.ids for encoding in tokenizer.encode_batch(rows, add_special_tokens=False)]
        for row, a, b in zip(rows, ours, theirs, strict=True):
            self.assertEqual(a, b, ascii(row))

    def test_split_by_a_plain_string_and_inverted(self):
        for index, split in enumerate([
                pre_tokenizers.Split(" ", "removed"), pre_tokenizers.Split("a.", "merged_with_next"),
                pre_tokenizers.Split(Regex(r"\w+"), "isolated", invert=True),
                pre_tokenizers.Split(Regex(r"[\w.]+|\W"), "removed", invert=True),
                pre_tokenizers.Split(Regex(r"x*"), "isolated"),
                pre_tokenizers.Split(Regex(r"\d{2,}?|\S\s*|\u00e9"), "contiguous"),
                pre_tokenizers.Split(Regex(r"(?<=\p{Lu})\p{Ll}++|(?>a+)b?|(?<!x)[\x{4e00}-\x{9fff}\-.]"), "isolated")]):
            tokenizer = corpus.train("x", 400, [], corpus=["x"])
            tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
                [split, pre_tokenizers.ByteLevel(add_prefix_space=index % 2 == 0, use_regex=False)])
            with self.subTest(index):
                self.compare(str(index), tokenizer, corpus.texts(11, 2500))

    def test_files_given_by_name(self):
        for path in filter(None, os.environ.get("NXDKIT_TOKENIZERS", "").split(":")):
            self.compare(path, Tokenizer.from_file(path), corpus.texts(12, 6000), path)


class Prompts(Case):
    def test_rows_become_what_apply_chat_template_makes(self):
        rows = [{"prompt": text, "answer": "1"} for text in corpus.texts(21, 1500)]
        with open(self.path("rows.jsonl"), "w", encoding="utf-8") as out:
            out.writelines(json.dumps(row) + "\n" for row in rows)
        for name, tokenizer in (("qwen", corpus.qwen()), ("llama3", corpus.llama3())):
            folder = self.path(name)
            bos, eos = ("<|begin_of_text|>", "<|eot_id|>") if name == "llama3" else (None, "<|im_end|>")
            fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=bos, eos_token=eos, pad_token=None)
            fast.chat_template = (
                "{{- bos_token }}{% for message in messages %}{{ '<|start_header_id|>' + message['role'] }}\n"
                "{{ message['content'] | trim }}{{ eos_token }}{% endfor %}{% if add_generation_prompt %}<|im_start|>"
                "assistant\n{% endif %}")
            fast.save_pretrained(folder)
            ours = self.ask_file("prompts", folder, self.path("rows.jsonl"))
            again = PreTrainedTokenizerFast.from_pretrained(folder)
            for row, ids in zip(rows, ours["rows"], strict=True):
                chat = [{"role": "user", "content": row["prompt"]}]
                theirs = again.apply_chat_template(chat, add_generation_prompt=True, tokenize=True, return_dict=False)
                self.assertEqual(ids, theirs, f"{name}: {row}")
            self.assertEqual(ours["special"], {"eos_ids": [again.eos_token_id], "pad": again.eos_token_id})


def token(content, **flags):
    return dict({"content": content, "lstrip": False, "rstrip": False, "single_word": False, "normalized": False, "special": True}, **flags)


def marked(content, **flags):
    return dict(token(content, **flags), __type="AddedToken")


ROWS = {"256": token("<a>"), "257": token("<b>"), "258": token("<c>", special=False)}
# tokenizer_config.json and its older companions, over a tokenizer with <a> and <b> (special) and <c>.
SETTINGS = [
    ({"eos_token": "<a>"}, {}),
    ({"eos_token": "<a>", "added_tokens_decoder": ROWS | {"256": token("<a>", lstrip=True, rstrip=True)}}, {}),
    ({"eos_token": "<a>", "added_tokens_decoder": ROWS | {"258": token("<c>", single_word=True)}}, {}),
    ({"eos_token": "<b>", "added_tokens_decoder": ROWS | {"256": token("<a>", special=False)}}, {}),
    ({"eos_token": "<c>", "added_tokens_decoder": ROWS}, {}), ({"eos_token": "<c>"}, {}),
    ({"eos_token": "<c>", "added_tokens_decoder": {"256": token("<a>")}}, {}),
    ({}, {"special_tokens_map.json": {"eos_token": "<b>", "pad_token": "<a>"}}),
    ({"eos_token": "<a>", "pad_token": "<a>"}, {"special_tokens_map.json": {"eos_token": "<b>", "pad_token": token("<c>")}}),
    ({"eos_token": "<a>", "added_tokens_decoder": ROWS}, {"special_tokens_map.json": {"eos_token": "<b>"}}),
    ({"eos_token": "<a>", "bos_token": "<b>", "pad_token": "<q>"}, {}),
    ({"eos_token": "<a>", "pad_token": marked("<q>", lstrip=True)}, {}),
    ({"eos_token": "<a>"}, {"special_tokens_map.json": {"pad_token": token("<q>", rstrip=True)}}),
    ({"eos_token": "<a>", "pad_token": "y"}, {}), ({"eos_token": "<a>", "unk_token": "<b>"}, {}),
    ({"eos_token": "<a>", "added_tokens_decoder": ROWS | {"260": token("<r>"), "259": token("<q>", special=False)}}, {}),
    ({"eos_token": "<a>", "extra_special_tokens": ["<q>", "<r>"]}, {}), ({"eos_token": "<a>", "extra_special_tokens": {"image": "<q>"}}, {}),
    ({"eos_token": "<a>", "additional_special_tokens": ["<c>", "<q>"]}, {}),
    ({"eos_token": "<a>"}, {"special_tokens_map.json": {"additional_special_tokens": ["<c>", "<q>"]}}),
    ({"eos_token": "<a>"}, {"added_tokens.json": {"<r>": 260, "<q>": 259, "<a>": 256}}),
]


class Settings(Case):
    def test_added_tokens_are_those_of_all_files(self):
        made = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(pre_tokenizers.ByteLevel.alphabet())}, merges=[]))
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        made.decoder = decoders.ByteLevel()
        made.add_special_tokens([AddedToken("<a>", normalized=False), AddedToken("<b>", normalized=False)])
        made.add_tokens([AddedToken("<c>", normalized=False)])
        rows = ["x <a> y<c> z<q>", "<q> <r>", " <b>  <a>\n<c>y", "a<c>b <c>", "yy", "<r><q>  q"]
        ids = [[256, 258, 257, 64], [259, 97, 260], [81, 82], [258, 258, 300]]
        for number, (config, others) in enumerate(SETTINGS):
            with self.subTest(config=config, others=others):
                folder = self.path(f"folder{number}")
                os.mkdir(folder)
                made.save(os.path.join(folder, "tokenizer.json"))
                for name, content in {"tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", **config}, **others}.items():
                    with open(os.path.join(folder, name), "w", encoding="utf-8") as out:
                        json.dump(content, out)
                theirs = AutoTokenizer.from_pretrained(folder)
                ours = self.ask("settings", folder, {"texts": rows, "ids": ids})
                self.assertEqual(ours["encoded"], [theirs(text, add_special_tokens=False).input_ids for text in rows])
                self.assertEqual(ours["decoded"], [theirs.decode(row, skip_special_tokens=True) for row in ids])
                self.assertEqual(ours["bos"], theirs.bos_token or "")
                self.assertEqual(ours["eos"], theirs.eos_token or "")
                self.assertEqual(ours["pad"], theirs.eos_token_id if theirs.pad_token_id is None else theirs.pad_token_id)


class Speed(Case):
    def test_a_word_of_a_megabyte_is_not_quadratic(self):
        tokenizer = corpus.qwen()
        path = self.save(tokenizer)
        rng = random.Random(2)
        word = "".join(rng.choice("abcde\xe9") for _ in range(1_000_000))
        marks = "a" + "\u0301\u0323" * 200_000
        rows = [word, "a" * 1_000_000, " " * 1_000_000, " \n" * 500_000, marks, "<|im_start|" * 100_000,
                "\r" * 1_000_000]
        begin = time.monotonic()
        ours = self.ask("encode", path, {"special": False, "texts": rows})
        seconds = time.monotonic() - begin
        for row, ids in zip(rows, ours, strict=True):
            self.assertEqual(ids, tokenizer.encode(row, add_special_tokens=False).ids, ascii(row[:20]))
        self.assertLess(seconds, 30)  # quadratic time would be hours

    def test_ordinary_text_beside_the_peer(self):
        tokenizer = corpus.qwen(8000)
        rows = [corpus.sentence(random.Random(i)) * 4 for i in range(4000)]
        ours = self.ask("time", self.save(tokenizer), {"special": False, "texts": rows})
        begin = time.monotonic()
        for row in rows:
            tokenizer.encode(row, add_special_tokens=False)
        theirs = time.monotonic() - begin
        print(f"encode: {ours['bytes'] / ours['seconds'] / 1e6:.1f} MB/s, {theirs / ours['seconds']:.1f} times as fast "
              "as the library `tokenizers` through Python")


if __name__ == "__main__":
    interop.main()
