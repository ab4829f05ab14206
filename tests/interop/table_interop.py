"""Parquet and arrow files that pyarrow writes, as data of the trainer: the same prompts as the rows as JSON Lines
give.

Usage: python table_interop.py --bin-dir DIR   (DIR is tests/interop of the build)
"""

import decimal
import json
import os
import subprocess
import sys
import tempfile
import unittest

import pyarrow
import pyarrow.parquet

import interop

ROWS = [{"prompt": f"{i} + {i} = \u00e9\u4e2d?\n" + "x" * (i % 50), "answer": str(2 * i)} for i in range(3000)]


def table(rows, **types):
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return pyarrow.table({name: pyarrow.array(values, types.get(name)) for name, values in columns.items()})


def write_stream(path, data):
    with pyarrow.OSFile(path, "wb") as out, pyarrow.ipc.new_stream(out, data.schema) as writer:
        writer.write_table(data, max_chunksize=700)


def write_file(path, data):
    with pyarrow.OSFile(path, "wb") as out, pyarrow.ipc.new_file(out, data.schema) as writer:
        writer.write_table(data, max_chunksize=700)


class Tables(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.model = self.path("model")
        os.mkdir(self.model)
        source = os.path.join(interop.SOURCE, "testdata", "tokenizer", "qwen")
        for name in os.listdir(source):
            os.symlink(os.path.join(source, name), os.path.join(self.model, name))
        with open(os.path.join(self.model, "tokenizer_config.json"), "w") as file:
            json.dump({"chat_template": "{{ messages[0].content }}", "eos_token": "<|im_end|>"}, file)
        with open(os.path.join(self.model, "config.json"), "w") as file:
            json.dump({"eos_token_id": 0}, file)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def ask(self, data):
        """Rows, and what was said of a failure. python3 is the one that has pyarrow."""
        environment = dict(os.environ, PATH=os.path.dirname(sys.executable) + ":" + os.environ["PATH"])
        ran = subprocess.run([interop.program("tokenizer_probe"), "prompts", self.model, data], text=True,
                             capture_output=True, env=environment, check=False)
        return (json.loads(ran.stdout)["rows"] if ran.returncode == 0 else None), ran.stderr

    def as_lines(self, rows):
        with open(self.path("rows.jsonl"), "w") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
        found, said = self.ask(self.path("rows.jsonl"))
        self.assertEqual(said, "")
        return found

    def test_every_form_is_the_same_rows(self):
        wanted = self.as_lines(ROWS)
        images = [[{"bytes": b"", "path": None}][:0] for _ in ROWS]
        large = table(ROWS, prompt=pyarrow.large_string(), answer=pyarrow.dictionary(pyarrow.int32(), pyarrow.string()))
        forms = {
            "plain.parquet": lambda path: pyarrow.parquet.write_table(table(ROWS), path),
            "groups.parquet": lambda path: pyarrow.parquet.write_table(
                table(ROWS), path, row_group_size=333, compression="zstd", data_page_version="2.0"),
            "large.parquet": lambda path: pyarrow.parquet.write_table(large, path, use_dictionary=False),
            "images.parquet": lambda path: pyarrow.parquet.write_table(
                table(ROWS).append_column("images", pyarrow.array(images, pyarrow.list_(pyarrow.struct(
                    {"bytes": pyarrow.binary(), "path": pyarrow.string()})))), path),
            "no_images.parquet": lambda path: pyarrow.parquet.write_table(
                table(ROWS).append_column("images", pyarrow.nulls(len(ROWS), pyarrow.list_(pyarrow.binary()))), path),
            "stream.arrow": lambda path: write_stream(path, table(ROWS)),
            "file.arrow": lambda path: write_file(path, large),
        }
        for name, write in forms.items():
            with self.subTest(name):
                write(self.path(name))
                found, said = self.ask(self.path(name))
                self.assertEqual(said, "")
                self.assertEqual(found, wanted)

    def test_a_data_set_of_the_hub(self):
        snapshot = self.path("hub/datasets--org--rows/snapshots/abc")
        os.makedirs(os.path.join(snapshot, "data"))
        for part in range(2):
            pyarrow.parquet.write_table(table(ROWS[part * 1500:][:1500]),
                                        os.path.join(snapshot, "data", f"train-0000{part}-of-00002.parquet"))
        pyarrow.parquet.write_table(table(ROWS[:3]), os.path.join(snapshot, "data", "test-00000-of-00001.parquet"))
        os.environ["HF_HUB_CACHE"] = self.path("hub")
        self.assertEqual(self.ask("org/rows@train")[0], self.as_lines(ROWS))
        self.assertEqual(self.ask("org/rows@test")[0], self.as_lines(ROWS[:3]))
        self.assertIn("there is no split 'dev'; there are test: 1 file, train: 2 files",
                      self.ask("org/rows@dev")[1])

    def test_answers_are_taken_as_python_prints_them(self):
        for values in ([1, 2], [0.5, 1e30], [decimal.Decimal("1.50"), decimal.Decimal("2.25")]):
            rows = [{"prompt": "p", "answer": value} for value in values]
            pyarrow.parquet.write_table(table(rows), self.path("answers.parquet"))
            self.assertEqual(len(self.ask(self.path("answers.parquet"))[0]), 2)

    def test_faults_are_named_with_file_and_row(self):
        def said(rows, **types):
            pyarrow.parquet.write_table(table(rows, **types), self.path("rows.parquet"))
            found, text = self.ask(self.path("rows.parquet"))
            self.assertIsNone(found)
            self.assertIn(self.path("rows.parquet"), text)
            return text

        good = {"prompt": "p", "answer": "a"}
        self.assertIn("row 2: found null, expected a text", said([good, {**good, "prompt": None}]))
        self.assertIn('row 1: found {"type":"bytes"}, expected a text', said([{**good, "prompt": b"x"}]))
        text = said([{"problem": "p", "solution": "s", "answer": "a"}])
        self.assertIn("the column is missing", text)
        self.assertIn("problem", text)
        self.assertIn("solution", text)
        self.assertIn("row 1: a row with images", said([{**good, "images": [1]}]))
        with open(self.path("broken.parquet"), "wb") as file:
            file.write(b"PAR1 no table")
        self.assertIn("Parquet", self.ask(self.path("broken.parquet"))[1])


if __name__ == "__main__":
    interop.main()
