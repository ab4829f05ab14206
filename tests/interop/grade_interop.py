"""Our grading of answers against MathRuler's grade_answer: random answers, and each against changed forms of itself.

Usage: python grade_interop.py --bin-dir DIR   (DIR is tests/interop of the build)
"""

import json
import os
import random
import re
import subprocess
import tempfile
import unittest

from mathruler.grader import grade_answer

import interop

ATOMS = ["1", "2", "10", "055", "(055)", "3.0", "0.5", ".5", "-7", "1,000", "12,345", "1/2", "\\frac{1}{2}", "\\frac12",
         "\\dfrac{3}{4}", "\\tfrac{-3}{4}", "\\frac{x+1}{2}", "\\sqrt{2}", "\\sqrt2", "2\\sqrt{3}", "\\pi", "2\\pi",
         "x", "x^2", "x^{2}+1", "2x", "(1,2)", "[0,1)", "(-\\infty, 3]", "1, 2", "\\{1,2\\}", "50\\%", "50%",
         "90^\\circ", "90^{\\circ}", "\\$5", "$5", "5 cm", "5\\text{ cm}", "\\text{yes}", "yes", "No", "x=5", "x \\in R",
         "\\left(1,2\\right)", "1\\frac{1}{2}", "3 1/2", "10^{3}", "1e3", "\\ne", "x \\ne 2", "\\neq 3", "\\le 4",
         "\u0664", "\uff15", "\u00bd", "\\boxed{4}", "even", "\\text{(A)}", "(A)", "A", "B.", "12.", "3.14", "three",
         "\\infty", "1 \\text{ and } 2", "2^{10}", "\\log_2 8", "|x|", "\\overline{AB}", "5 \\times 10^3", ""]
CHANGES = [lambda t: t, lambda t: t + "\n", lambda t: t + ".", lambda t: " " + t + " ", lambda t: "$" + t + "$",
           lambda t: t.replace("frac", "dfrac"), lambda t: t.replace(" ", ""), lambda t: "(" + t + ")",
           lambda t: t + " ", lambda t: "x=" + t, lambda t: t.upper(), lambda t: "-" + t, lambda t: t + "0",
           lambda t: t.replace("{", "").replace("}", ""), lambda t: t + "\\%", lambda t: t + "^\\circ", lambda t: "0" + t]


def pairs():
    rng = random.Random(4)
    for truth in ATOMS:
        for change in CHANGES:
            yield change(truth), truth
            yield truth, change(truth)
    for _ in range(12000):
        truth = rng.choice(ATOMS)
        given = rng.choice(CHANGES)(truth) if rng.random() < .7 else rng.choice(ATOMS)
        yield given, rng.choice(CHANGES)(truth)


class Grading(unittest.TestCase):
    def test_verdicts(self):
        # Python 3.11 reads 055 in an expression as 0 * 55; 3.12 rejects it, as we do.
        work = sorted(pair for pair in set(pairs()) if not re.search(r"(?<![\d.])0\d", " ".join(pair)))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "pairs.json")
            with open(path, "w") as file:
                json.dump(work, file)
            ran = subprocess.run([interop.program("grade_probe"), path], capture_output=True, text=True, check=True)
        ours = json.loads(ran.stdout)
        wrong = []
        for (given, truth), verdict in zip(work, ours, strict=True):
            try:
                theirs = bool(grade_answer(given, truth))
            except Exception as error:  # several kinds
                theirs = f"{error!r:.60}"
            if verdict != theirs:
                wrong.append((given, truth, verdict, theirs))
        for row in wrong[:int(os.environ.get("SHOW", "20"))]:
            print(*map(ascii, row))
        self.assertEqual(len(wrong), 0, f"of {len(work)}")


if __name__ == "__main__":
    interop.main()
