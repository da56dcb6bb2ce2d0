# SPDX-License-Identifier: Apache-2.0
"""Outputs and gradients equal those of the C++ block bit for bit.

    bits_test.py REFERENCE            the program python_reference
    bits_test.py REFERENCE --time     compares their times as well
"""

import statistics
import subprocess
import sys
import tempfile
import time
import unittest

import torch

import hydramix

REFERENCE = sys.argv.pop(1)
ROUNDS, SECONDS = 9, 1.5  # of each measurement
MIXERS = ("hydra", "attention", "toeplitz_dd", "quasiseparable_dd", "s6")


def made(mixer):
    if mixer == "hydra":
        return hydramix.Hydra(32, d_state=8, headdim=16)
    return hydramix.Block(32, mixer, headdim=16, qk_dim=4, d_state=8, max_length=64)


class Bits(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
            subprocess.run([REFERENCE, file.name], check=True)
            cls.file, _ = hydramix.load_file(file.name)

    def test_output_gradients_and_matrix_equal_those_of_cpp(self):
        for mixer in MIXERS:
            with self.subTest(mixer):
                def of(name):
                    return self.file[f"{mixer}/{name}"]

                prefix = f"{mixer}/weight/"
                weights = {name[len(prefix):]: t for name, t in self.file.items()
                           if name.startswith(prefix)}
                layer = made(mixer)
                layer.load_state_dict(weights)
                u = of("u").requires_grad_()
                y = layer(u, attention_mask=of("mask"))
                y.backward(of("dy"))
                self.assertTrue(torch.equal(y, of("y")))
                self.assertTrue(torch.equal(u.grad, of("du")))
                for name, weight in layer.named_parameters():
                    self.assertTrue(torch.equal(weight.grad, of(f"gradient/{name}")), name)
                self.assertTrue(torch.equal(layer.materialize(u), of("matrix")))


def best_time(layer, u):
    best, until = 1e9, time.process_time() + SECONDS
    while time.process_time() < until:
        start = time.process_time()
        layer(u).sum().backward()
        best = min(best, time.process_time() - start)
    return best


def compare_times():
    """CPU times of Hydra's block of the paper's size, forward and backward, in C++ and in Python by
    turns. Prints the best of all rounds, and the median of the rounds' ratios."""
    layer = hydramix.Hydra(768)
    print(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads")
    reference = subprocess.Popen([REFERENCE, "--time"], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, text=True)
    for batch, length in ((4, 128), (1, 512), (16, 128), (4, 512)):
        u = torch.randn(batch, length, 768, requires_grad=True)
        cpp, python = [], []
        for _ in range(ROUNDS):
            print(batch, length, SECONDS, file=reference.stdin, flush=True)
            cpp.append(float(reference.stdout.readline()))
            python.append(best_time(layer, u))
        ratio = statistics.median(p / c for c, p in zip(cpp, python))
        print(f"B={batch} L={length}: C++ {1e3 * min(cpp):.2f} ms, Python {1e3 * min(python):.2f} ms, "
              f"{100 * (min(python) / min(cpp) - 1):+.1f} %; median of {ROUNDS} rounds "
              f"{100 * (ratio - 1):+.1f} %", flush=True)
    reference.stdin.close()
    reference.wait()


if __name__ == "__main__":
    if "--time" in sys.argv:
        compare_times()
    else:
        unittest.main()
