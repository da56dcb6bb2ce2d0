# SPDX-License-Identifier: Apache-2.0
"""The examples run, and what they write opens in the command.

    examples_test.py COMMAND
"""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

COMMAND = sys.argv.pop(1)
EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples" / "python"


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(f"{command} failed with {done.returncode}: {done.stderr}")
    return done.stdout


class Examples(unittest.TestCase):
    def test_drop_in(self):
        out = run(sys.executable, EXAMPLES / "drop_in.py")
        self.assertIn("loss", out)
        self.assertNotIn("nan", out)

    def test_matrices(self):
        out = run(sys.executable, EXAMPLES / "matrices.py")
        self.assertRegex(out, "hydra +Quasiseparable +O\\(L\\) +4, 4")

    def test_pretraining_and_fine_tuning(self):
        with tempfile.TemporaryDirectory() as folder:
            model, classifier = Path(folder) / "model", Path(folder) / "classifier"
            out = run(sys.executable, EXAMPLES / "train_mlm.py", model, 200)
            losses = [float(line.split()[-1]) for line in out.splitlines() if "loss" in line]
            self.assertLess(losses[-1], losses[0] - 1.5)
            out = run(sys.executable, EXAMPLES / "classify.py", model, classifier, 3)
            right = [float(line.split()[2]) for line in out.splitlines() if "epoch" in line]
            self.assertGreater(right[-1], 80)
            self.assertIn("dog", run(COMMAND, "fill-mask", "--model", model, "the dog [MASK] .",
                                     "--top", 300))
            self.assertIn(out.split()[-1], run(COMMAND, "predict", classifier, "--text",
                                               "the film was really lovely ."))


if __name__ == "__main__":
    unittest.main()
