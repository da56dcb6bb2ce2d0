# SPDX-License-Identifier: Apache-2.0
"""Outputs and gradients equal those of the C++ block bit for bit.

    bits_test.py REFERENCE            the program python_reference
    bits_test.py REFERENCE --time     compares their times as well
"""

import subprocess
import sys
import tempfile
import time
import unittest

import torch

import hydramix

REFERENCE = sys.argv.pop(1)
SECONDS = 5  # of each measurement
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


def compare_times():
    """Best CPU times of Hydra's block of the paper's size, forward and backward."""
    layer = hydramix.Hydra(768)
    printed = subprocess.run([REFERENCE, "--time", str(SECONDS)], check=True, capture_output=True, text=True)
    for line in printed.stdout.splitlines():
        batch, length, cpp = line.split()
        u = torch.randn(int(batch), int(length), 768, requires_grad=True)
        best, until = 1e9, time.process_time() + SECONDS
        while time.process_time() < until:
            start = time.process_time()
            layer(u).sum().backward()
            best = min(best, time.process_time() - start)
        print(f"B={batch} L={length}: C++ {1e3 * float(cpp):.2f} ms, Python {1e3 * best:.2f} ms, "
              f"{100 * (best / float(cpp) - 1):+.1f} %")


if __name__ == "__main__":
    if "--time" in sys.argv:
        compare_times()
    else:
        unittest.main()
