"""Threads, forks, spawned processes, and Ctrl-C."""

import concurrent.futures
import multiprocessing
import os
import signal
import threading
import unittest
from unittest import mock

import nxdkit
import workshop
from nxdkit import _handle

NAME = "model.layers.0.mlp.down_proj.weight"


def read(tensor):
    return bytes(tensor.bytes())


def exit_code_of(work):
    """Runs `work` in a forked child: 0 where it returned True."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if work() else 1
        finally:
            os._exit(code)
    return os.WEXITSTATUS(os.waitpid(child, 0)[1])


class ProcessTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.data = workshop.stored(workshop.model())[NAME][2]

    def test_threads_share_a_checkpoint(self):
        with nxdkit.open(workshop.form("nxd")) as run:
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                results = list(pool.map(read, [run[NAME]] * 64))
        self.assertEqual(set(results), {self.data})

    def test_closing_while_threads_read_ends_well(self):
        for _ in range(20):
            run = nxdkit.open(workshop.form("nxd"))
            started, refused = threading.Barrier(5), []

            def work(tensor=run[NAME], started=started, refused=refused):
                started.wait()
                try:
                    for _ in range(50):
                        read(tensor)
                except ValueError as error:
                    refused.append(str(error))

            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads:
                thread.start()
            started.wait()
            run.close()
            for thread in threads:
                thread.join()
            self.assertTrue(all("closed" in text for text in refused))

    def test_the_last_user_closes(self):
        run = nxdkit.open(workshop.model())
        handle = run._handle
        with handle:
            with handle:
                run.close()
                self.assertTrue(handle._finalizer.alive)
            self.assertTrue(handle._finalizer.alive)
            with self.assertRaisesRegex(ValueError, "closed"):
                handle.__enter__()
        self.assertFalse(handle._finalizer.alive)

    def test_a_forked_child_closes_nothing_of_its_parents(self):
        run = nxdkit.open(workshop.model())

        def work():
            with mock.patch.object(_handle, "load") as load:
                run._handle._finalizer()
                return not load.called

        self.assertEqual(exit_code_of(work), 0)
        with mock.patch.object(_handle, "load") as load:
            run.close()
            self.assertTrue(load.called)

    def test_a_forked_child_reads_and_the_parent_goes_on(self):
        with nxdkit.open(workshop.form("nxd")) as run:
            tensor, rank = run[NAME], run.rank("vllm", tp=2)
            expected = {name: read(part) for name, part in rank.items()}

            def work():
                same = all(read(rank[name]) == data for name, data in expected.items())
                run.close()
                return same and rank._handle.pid == os.getpid()

            self.assertEqual(exit_code_of(work), 0)
            self.assertEqual(read(tensor), self.data)

    def test_a_forked_child_has_the_arrays(self):
        tensors = {"a": ("U8", (3,), bytearray(b"abc"))}
        with nxdkit.Source(tensors, config=None) as source:
            self.assertEqual(exit_code_of(lambda: read(source["a"]) == b"abc"), 0)

    def test_a_forked_child_sees_that_it_is_another_model(self):
        path = workshop.copied(workshop.model())
        with nxdkit.open(path) as run:
            os.rename(path, path + ".old")
            nxdkit.run("make-model", family="qwen3", dtype="f32", out=path)

            def work():
                try:
                    read(run[NAME])
                except nxdkit.DamagedError as error:
                    return "other tensors" in str(error)
                return False

            self.assertEqual(exit_code_of(work), 0)

    def test_processes_get_tensors(self):
        for method in ("fork", "spawn"):
            context = multiprocessing.get_context(method)
            with nxdkit.open(workshop.form("nxd")) as run, context.Pool(2) as pool:
                rank = run.rank("nxd", 1, tp=4, kv_multiplier=2, hw="trn1")
                name = next(iter(rank))
                asked = [run[NAME], run[NAME][1::2, 3], rank[name]]
                with self.subTest(method):
                    self.assertEqual(pool.map(read, asked), [read(tensor) for tensor in asked])

    def test_a_path_is_found_from_another_folder(self):
        import pickle

        path = workshop.model()
        here = os.getcwd()
        try:
            os.chdir(os.path.dirname(path))
            with nxdkit.open(os.path.basename(path)) as run:
                text = pickle.dumps(run[NAME])
            os.chdir(here)
            self.assertEqual(read(pickle.loads(text)), self.data)
        finally:
            os.chdir(here)


class InterruptTest(unittest.TestCase):
    """Signals arrive while the library works: `--follow` waits for steps that never come."""

    def follow(self, progress=None):
        run = workshop.fresh("run")
        os.mkdir(run)
        nxdkit.convert(run, workshop.fresh(), to="hf", follow=True, idle=60, progress=progress)

    def test_ctrl_c_ends_the_work(self):
        begun = threading.Event()
        with workshop.interrupted_once(begun), self.assertRaises(KeyboardInterrupt):
            self.follow(lambda progress: begun.set())
        self.assertIs(signal.getsignal(signal.SIGINT), signal.default_int_handler)

    def test_ctrl_c_ends_the_work_without_a_callback(self):
        begun = threading.Event()
        with workshop.interrupted_once(begun), self.assertRaises(KeyboardInterrupt):
            threading.Timer(0.2, begun.set).start()
            self.follow()

    def test_what_a_handler_raises_is_raised(self):
        def handler(number, frame):
            raise TimeoutError(f"signal {number}")

        before = signal.signal(signal.SIGALRM, handler)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            with self.assertRaisesRegex(TimeoutError, f"signal {int(signal.SIGALRM)}"):
                self.follow()
            self.assertIs(signal.getsignal(signal.SIGALRM), handler)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def test_a_handler_that_returns_stops_nothing(self):
        calls = []
        before = signal.signal(signal.SIGALRM, lambda *_: calls.append(1))
        output = workshop.fresh()

        def alarm(progress):
            os.kill(os.getpid(), signal.SIGALRM)

        try:
            nxdkit.convert(workshop.model(), output, to="nxd", tp=2, progress=alarm)
        finally:
            signal.signal(signal.SIGALRM, before)
        self.assertTrue(calls)
        self.assertTrue(os.path.exists(output))

    def test_a_handler_is_called_though_the_callback_raises(self):
        calls = []
        before = signal.signal(signal.SIGUSR1, lambda *_: calls.append(1))

        def fail(progress):
            os.kill(os.getpid(), signal.SIGUSR1)
            raise LookupError("enough")

        try:
            with self.assertRaises(LookupError):
                nxdkit.digest(workshop.model(), progress=fail)
        finally:
            signal.signal(signal.SIGUSR1, before)
        self.assertEqual(calls, [1])

    def test_works_in_other_threads(self):
        results = []

        def work():
            results.append(nxdkit.digest(workshop.model()))
            try:
                self.follow(lambda progress: 1 / 0)
            except ZeroDivisionError:
                results.append("stopped")

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        self.assertEqual(results, [nxdkit.digest(workshop.model()), "stopped"])


if __name__ == "__main__":
    unittest.main()
