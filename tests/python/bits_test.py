# SPDX-License-Identifier: Apache-2.0
"""Outputs and gradients equal those of the C++ block bit for bit.

    bits_test.py REFERENCE            the program python_reference
    bits_test.py REFERENCE --time cpu|cuda     compares their times
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
ROUNDS = 9
SECONDS = {"cpu": 1.5, "cuda": 0.3}  # of each measurement
STEPS_ON_GPU = 20  # between two waits
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


def time_of_step(run, u):
    if not u.is_cuda:
        start = time.process_time()
        run(u).sum().backward()
        return time.process_time() - start
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(STEPS_ON_GPU):
        run(u).sum().backward()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / STEPS_ON_GPU


def best_time(run, u):
    best, until = 1e9, time.perf_counter() + SECONDS[u.device.type]
    while time.perf_counter() < until:
        best = min(best, time_of_step(run, u))
    return best


def compare_times(device):
    """Times of Hydra's block of the paper's size, forward and backward, in C++ and in Python by
    turns. Prints the best of all rounds, and the median of the rounds' ratios."""
    sizes = {"cpu": ((4, 128), (1, 512), (16, 128), (4, 512)),
             "cuda": ((128, 128), (32, 512), (8, 2048))}
    modes = {"cpu": ("eager",), "cuda": ("eager", "reduce-overhead")}
    print(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads")
    with subprocess.Popen([REFERENCE, "--time"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as reference:
        for batch, length in sizes[device]:
            for mode in modes[device]:
                compare_time(reference, device, batch, length, mode)


def compare_time(reference, device, batch, length, mode):
    u = torch.randn(batch, length, 768, device=device)
    u = (u.bfloat16() if u.is_cuda else u).requires_grad_()
    layer = hydramix.Hydra(768).to(device)
    run = layer if mode == "eager" else torch.compile(layer, mode=mode)
    for _ in range(3):
        run(u).sum().backward()
    cpp, python = [], []
    for _ in range(ROUNDS):
        print(device, batch, length, SECONDS[device], file=reference.stdin, flush=True)
        cpp.append(float(reference.stdout.readline()))
        python.append(best_time(run, u))
    ratio = statistics.median(p / c for c, p in zip(cpp, python))
    print(f"{device} B={batch} L={length} {mode}: C++ {1e3 * min(cpp):.3f} ms, Python "
          f"{1e3 * min(python):.3f} ms, {100 * (min(python) / min(cpp) - 1):+.1f} %; median of "
          f"{ROUNDS} rounds {100 * (ratio - 1):+.1f} %", flush=True)


if __name__ == "__main__":
    if "--time" in sys.argv:
        compare_times(sys.argv[-1])
    else:
        unittest.main()
