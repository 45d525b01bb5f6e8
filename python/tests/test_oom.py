"""Tests that errors of all frameworks are recognised as a lack of memory by their texts. No framework is needed.

usage: test_oom.py
"""
import builtins
import json
import os
import pathlib
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import berth  # noqa: E402
from berth import oom  # noqa: E402
from berth.retrying import drop_frames  # noqa: E402


def raised(row):
    """An exception with the type and text of this row."""
    module, _, name = row["type"].rpartition(".")
    if module == "builtins":
        kind = getattr(builtins, name)
    else:
        bases = tuple(getattr(builtins, base) for base in row.get("bases", ["Exception"]))
        kind = type(name, bases, {"__module__": module})
    problem = kind(row["text"]) if row["text"] else kind()
    if "code" in row:
        problem.code = row["code"]
    if "errno" in row:
        problem = kind(row["errno"], row["text"])
    return problem


class Texts(unittest.TestCase):
    rows = json.loads((HERE / "oom_texts.json").read_text())

    def test_every_recorded_text_is_known(self):
        for row in self.rows["oom"]:
            self.assertTrue(berth.is_oom(raised(row)), row)

    def test_each_word_is_found_by_the_one_before_it(self):
        self.assertEqual([word for hint, words in oom._WORDS.items() for word in words if hint not in word], [])

    def test_what_only_looks_like_it_is_not(self):
        self.assertGreaterEqual(len(self.rows["not_oom"]), 50)
        for row in self.rows["not_oom"]:
            self.assertFalse(berth.is_oom(raised(row)), row)

    def test_causes_and_contexts_and_groups_are_walked(self):
        inner = raised(self.rows["oom"][0])
        try:
            try:
                raise inner
            except RuntimeError:
                raise ValueError("the model failed")
        except ValueError as outer:
            self.assertTrue(berth.is_oom(outer))
        try:
            raise KeyError("x") from inner
        except KeyError as outer:
            self.assertTrue(berth.is_oom(outer))
        try:
            try:
                raise inner
            except RuntimeError:
                raise ValueError("on purpose") from None
        except ValueError as outer:
            self.assertFalse(berth.is_oom(outer))
        if hasattr(builtins, "ExceptionGroup"):
            self.assertTrue(berth.is_oom(ExceptionGroup("both", [KeyError("x"), inner])))
        loop = ValueError("a")
        loop.__context__ = loop2 = ValueError("b")
        loop2.__context__ = loop
        self.assertFalse(berth.is_oom(loop))
        loop.__cause__, loop2.__cause__ = loop2, loop
        self.assertFalse(berth.is_oom(loop))
        self.assertTrue(oom.may_try_again(loop))
        drop_frames(loop)
        self.assertFalse(berth.is_oom(None))

    def test_a_bug_in_a_handler_is_none(self):
        inner, tries = raised(self.rows["oom"][0]), []
        bugs = (lambda: undefined, lambda: None.batch, lambda: {}["batch"], lambda: len(3), lambda: 1 / 0, lambda: [].pop())  # noqa: F821

        def step(bug):
            tries.append(1)
            try:
                raise inner
            except RuntimeError:
                bug()
        for bug in bugs:
            with self.assertRaises(Exception) as caught:
                berth.retry(step, first=0.0, report=False)(bug)
            self.assertFalse(berth.is_oom(caught.exception), caught.exception)
        self.assertEqual(len(tries), len(bugs))
        try:
            raise KeyError("batch") from inner
        except KeyError as outer:
            self.assertTrue(berth.is_oom(outer), "where it says so itself")

    def test_what_is_said_is_told_from_what_a_sentence_is_about(self):
        for text in ("CUDA out of memory", "CUDA out of memory\n", "RuntimeError: CUDA out of memory.", "step failed with CUDA out of memory. Tried to allocate 2 GiB",
                     "worker 3 raised RuntimeError('CUDA out of memory. Tried to allocate 2 GiB')",
                     "call returned CUDA_ERROR_OUT_OF_MEMORY", "cuBLAS error CUBLAS_STATUS_ALLOC_FAILED",
                     "it says std::bad_alloc is near\nwhat():  std::bad_alloc"):
            self.assertTrue(berth.is_oom(RuntimeError(text)), text)
        for text in ("log says: 'CUDA out of memory. Tried to allocate 2 GiB'", "Your run log says CUDA out of memory. Tried to allocate 2 GiB; raise batch", "CUDA out of memory. Tried to allocate is what I grep for",
                     "std::bad_alloc is not raised here", "Out of Host Memory is a song", "The tutorial about cudaErrorMemoryAllocation",
                     "no CUDA out of memory", "CUDA out of memory tests are skipped",
                     "invalid rule: 'CUDA out of memory. Tried to allocate 2 GiB'", "the string “RuntimeError: CUDA error: out of memory” was not found",
                     'cannot decode {"error": "CUDA out of memory. Tried to allocate 2 GiB"}', "rules.yaml, rule 3: CUDA error: out of memory"):
            self.assertFalse(berth.is_oom(RuntimeError(text)), text)

    def test_groups_of_the_package_for_older_pythons_are_walked(self):
        inner = raised(self.rows["oom"][0])
        group = type("ExceptionGroup", (Exception,), {"__module__": "exceptiongroup"})
        both = group("both")
        both.exceptions = (KeyError("x"), inner)
        self.assertTrue(berth.is_oom(both))
        self.assertTrue(berth.is_oom(self.caused(both)))
        for other in (3, "abc", None, (1, "two"), {"a": 1}):  # `exceptions` is not a list of exceptions here, but an attribute with the same name
            both.exceptions = other
            self.assertFalse(berth.is_oom(both))
            self.assertIs(oom.may_try_again(both), True)
        both.exceptions = (both,) * 1000
        self.assertFalse(berth.is_oom(both))

    @staticmethod
    def caused(problem):
        outer = ValueError("the model failed")
        outer.__cause__ = problem
        return outer

    def test_of_a_long_text_both_ends_are_read(self):
        word = "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB"
        for text in (word + "\nframe" * 100_000, "a trace\n" * 100_000 + word):
            self.assertTrue(berth.is_oom(RuntimeError(text)))
        long = "\nframe" * 100_000
        self.assertFalse(berth.is_oom(RuntimeError(long + word + long)), "the time that it takes has a bound")
        self.assertFalse(oom.is_sticky(RuntimeError(long + "device-side assert triggered" + long)))

    def test_what_is_no_text_is_not_made_into_one(self):
        class Large:
            def __repr__(self):
                raise AssertionError("it is made into text")
        self.assertFalse(berth.is_oom(RuntimeError("failed", Large())))
        self.assertFalse(berth.is_oom(RuntimeError(Large())))
        self.assertTrue(berth.is_oom(RuntimeError("CUDA error: out of memory", Large())))
        silent = type("Silent", (RuntimeError,), {"__str__": lambda self: 1 / 0})
        self.assertFalse(berth.is_oom(silent()))
        self.assertFalse(oom.is_sticky(silent()))

    def test_a_lost_context_is_told(self):
        self.assertTrue(oom.is_sticky(RuntimeError("CUDA error: an illegal memory access was encountered")))
        self.assertTrue(oom.is_sticky(RuntimeError("CUDA error: device-side assert triggered")))
        self.assertTrue(oom.is_sticky(RuntimeError("level_zero backend failed with error: 20 (UR_RESULT_ERROR_DEVICE_LOST)")))
        for row in self.rows["oom"]:
            self.assertFalse(oom.is_sticky(raised(row)), row)
        launch = type("LaunchError", (Exception,), {"__module__": "pycuda._driver"})
        self.assertTrue(oom.is_sticky(launch("cuCtxSynchronize failed: unspecified launch failure")))
        about = ValueError("bad header: misaligned address 0x3 in file")
        self.assertFalse(oom.is_sticky(about))
        self.assertRaises(ValueError, berth.retry(first=0.0)(lambda: (_ for _ in ()).throw(about)))

    def test_nothing_is_imported(self):
        code = ("import sys; import berth; berth.is_oom(RuntimeError('CUDA out of memory. Tried to allocate')); berth.sizes\n"
                "print(sorted({'torch', 'jax', 'tensorflow', 'cupy', 'numpy', 'ctypes'} & set(sys.modules)))")
        done = subprocess.run([sys.executable, "-c", code.replace("; berth.sizes", "")], env={**os.environ, "PYTHONPATH": str(HERE.parent)},
                              capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout, "[]\n")


if __name__ == "__main__":
    unittest.main()
