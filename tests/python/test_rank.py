"""The tensors that a rank of a layout will hold."""

import hashlib
import pickle
import unittest

import nxdkit
import workshop


class RankTest(unittest.TestCase):
    def test_the_ranks_are_the_shards(self):
        for options in ({"tp": 2}, {"tp": 4, "kv_multiplier": 2, "hw": "trn1"}):
            with self.subTest(options), nxdkit.open(workshop.form("rollout")) as run:
                ranks = [run.rank("nxd", rank, **options) for rank in range(options["tp"])]
                shards = [dict(rank.items()) for rank in ranks]
                hardware = {"hw": options["hw"]} if "hw" in options else {}
                config = workshop.model()
                with nxdkit.Source.from_shards(shards, config=config, **hardware) as source:
                    self.assertEqual(source.digest(), nxdkit.digest(workshop.model()))

    def test_stages_have_their_layers(self):
        with nxdkit.open(workshop.model()) as run:
            first = run.rank("nxd", 0, tp=2, pp=2)
            second = run.rank("nxd", 0, tp=2, pp=2, pp_rank=1)
        self.assertFalse(set(first) & set(second) - {"lm_head.weight"})
        self.assertGreater(len(second), 0)

    def test_an_engine_holds_what_its_digest_says(self):
        for engine, prefix in (("vllm", "dp0:pp0:pcp0:tp"), ("vllm-neuron", "dp0:tp")):
            said = nxdkit.run("digest", workshop.model(), as_=engine, tp=2).checksums
            with nxdkit.open(workshop.form("nxd")) as run:
                held = {
                    f"{prefix}{number}:{name}": hashlib.sha256(tensor.bytes()).hexdigest()
                    for number in range(2)
                    for name, tensor in run.rank(engine, tp=2, rank=number).items()
                }
            self.assertEqual(held, said, engine)

    def test_parts_of_ranks_are_read(self):
        with nxdkit.open(workshop.model()) as run:
            rank = run.rank("vllm", tp=2, rank=1)
            name = "model.layers.0.self_attn.qkv_proj.weight"
            whole = rank[name]
            part = whole[3:7, ::2]
            ranges = [range(3, 7), range(0, whole.shape[1], 2)]
            self.assertEqual(part.bytes(), workshop.cut(bytes(whole.bytes()), whole.shape, ranges))
            self.assertIn("q_proj", whole.explain())

    def test_pickles_as_its_request(self):
        with nxdkit.open(workshop.model()) as run:
            rank = run.rank("nxd", 1, tp=2)
            again = pickle.loads(pickle.dumps(rank))
            self.assertEqual(list(again), list(rank))
            name = next(iter(rank))
            self.assertEqual(again[name].bytes(), rank[name].bytes())

    def test_outlives_what_it_was_made_of(self):
        run = nxdkit.open(workshop.model())
        rank = run.rank("nxd", 1, tp=2)
        run.close()
        self.assertGreater(len(rank[next(iter(rank))].bytes()), 0)

    def test_refuses_ranks_and_options_that_are_not_there(self):
        with nxdkit.open(workshop.model()) as run:
            for layout, rank, options, message in (
                ("nxd", 2, {"tp": 2}, "rank"),
                ("vllm", 2, {"tp": 2}, "no rank 2"),
                ("nxd", 0, {"tp": 2, "bogus": 1}, "bogus"),
                ("nothing", 0, {}, "nothing"),
            ):
                with self.subTest(layout), self.assertRaisesRegex(nxdkit.UsageError, message):
                    run.rank(layout, rank, **options)

    def test_no_command_reads_a_rank(self):
        with nxdkit.open(workshop.model()) as run, run.rank("nxd", 1, tp=2) as rank:
            with self.assertRaisesRegex(nxdkit.UsageError, "it is one rank of a layout"):
                rank.digest()


if __name__ == "__main__":
    unittest.main()
