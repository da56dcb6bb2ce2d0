# SPDX-License-Identifier: Apache-2.0
"""Hydra and Block in PyTorch: masks, dtypes, copies, autocast, distributed training, bad input."""

import contextlib
import copy
import gc
import inspect
import io
import json
import os
import pickle
import subprocess
import sys
import tempfile
import unittest
import weakref
from pathlib import Path

import torch
import torch.utils.checkpoint
from torch.nn.utils import parametrize
from torch.utils._python_dispatch import TorchDispatchMode

import hydramix
from hydramix import _library

SMALL = dict(headdim=8, d_state=8, qk_dim=4, max_length=64)


def hydra(**options):
    return hydramix.Hydra(16, d_state=8, headdim=8, **options)


class Layers(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(3)

    def test_the_signature_is_the_published_one(self):
        parameters = inspect.signature(hydramix.Hydra).parameters
        self.assertEqual(list(parameters), [
            "d_model", "d_state", "d_conv", "conv_init", "expand", "headdim", "ngroups", "dt_min",
            "dt_max", "dt_init_floor", "dt_limit", "learnable_init_states", "activation", "bias",
            "conv_bias", "chunk_size", "use_mem_eff_path", "layer_idx", "device", "dtype"])
        defaults = [p.default for p in parameters.values()][1:]
        self.assertEqual(defaults, [64, 7, None, 2, 64, 1, 0.001, 0.1, 1e-4, (0.0, float("inf")),
                                    False, "swish", False, True, 256, False, None, None, None])
        layer = hydramix.Hydra(64)
        self.assertIsInstance(layer.in_proj, torch.nn.Linear)
        self.assertIsInstance(layer.conv1d, torch.nn.Conv1d)
        self.assertEqual(sum(p.numel() for p in layer.parameters()), 64 * 516 + 384 * 8 + 6
                         + 2 * 128 + 128 + 128 * 64)
        self.assertTrue(layer.A_log._no_weight_decay)

    def test_initial_values_are_the_published_ones(self):
        layer = hydramix.Hydra(128, dt_min=0.01, dt_max=0.02, conv_init=0.25)
        dt = torch.nn.functional.softplus(layer.dt_bias)
        self.assertTrue(((dt > 0.0099) & (dt < 0.0201)).all())
        self.assertTrue((layer.A_log == 0).all() and (layer.D == 1).all())
        self.assertLessEqual(layer.conv1d.weight.abs().max().item(), 0.25)
        self.assertLessEqual(layer.in_proj.weight.abs().max().item(), 128 ** -0.5)

    def test_gradients_are_right_for_every_mixer(self):
        for name in hydramix.mixers():
            with self.subTest(name):
                block = hydramix.Block(16, name, **SMALL).double()
                u = torch.randn(1, 4, 16, dtype=torch.float64, requires_grad=True)
                weights = list(block.parameters())
                direction = [torch.randn_like(t) for t in [u, *weights]]
                y = block(u)
                dy = torch.randn_like(y)
                y.backward(dy)
                slope = sum((d * t.grad).sum() for d, t in zip(direction, [u, *weights]))

                def moved(step):
                    with torch.no_grad():
                        for d, t in zip(direction, [u, *weights]):
                            t.add_(d, alpha=step)
                        value = (block(u) * dy).sum()
                        for d, t in zip(direction, [u, *weights]):
                            t.sub_(d, alpha=step)
                    return value.item()

                expected = (moved(1e-7) - moved(-1e-7)) / 2e-7
                self.assertAlmostEqual(slope.item(), expected, delta=1e-5 * (1 + abs(expected)))

    def test_the_matrix_is_what_the_mixer_applies(self):
        block = hydramix.Block(16, "low_rank_dd", style="plain", expand=1, **SMALL).double()
        u = torch.randn(2, 9, 16, dtype=torch.float64)
        M = block.materialize(u)
        x = (u @ block.in_proj.weight.T)[..., :16].unflatten(-1, (2, 8))
        y = torch.einsum("bhij,bjhp->bihp", M, x).flatten(2) @ block.out_proj.weight.T
        self.assertLess((block(u) - y).abs().max().item(), 1e-12)

    def test_padding_does_not_leak(self):
        for layer in (hydra(), hydra(learnable_init_states=True),
                      hydramix.Block(16, "attention", **SMALL)):
            u = torch.randn(3, 20, 16)
            for mask in self.masks():
                with self.subTest(mask=mask.tolist()):
                    noise = torch.where(mask[..., None], u, torch.full_like(u, float("nan")))
                    y = layer(noise, attention_mask=mask)
                    for row in range(3):
                        tokens = mask[row].nonzero().flatten()
                        alone = layer(u[row, tokens][None])[0]
                        self.assertLess((y[row, tokens] - alone).abs().max().item(), 1e-5)
                        self.assertTrue((y[row, ~mask[row]] == 0).all())

    @staticmethod
    def masks():
        right = torch.ones(3, 20, dtype=torch.bool)
        right[1, 12:] = False
        both = right.clone()
        both[2, :4] = False
        holes = both.clone()
        holes[0, 5:8] = False
        holes[2, 10] = False
        return right, both, holes

    def test_masks_of_integers_and_gradients_through_holes(self):
        layer = hydra()
        mask = self.masks()[2]
        u = torch.randn(3, 20, 16, requires_grad=True)
        layer(u, attention_mask=mask.long()).sum().backward()
        self.assertTrue((u.grad[~mask] == 0).all() and (u.grad[mask] != 0).any())

    def test_packed_sequences(self):
        layer = hydra()
        u = torch.randn(1, 20, 16)
        y = layer(u, cu_seqlens=torch.tensor([0, 7, 7, 20], dtype=torch.int32))
        for begin, end in ((0, 7), (7, 20)):
            self.assertLess((y[:, begin:end] - layer(u[:, begin:end])).abs().max().item(), 1e-5)
        rows = torch.randn(2, 10, 16)
        index = torch.tensor([[0] * 4 + [1] * 6, [5] * 10])
        z = layer(rows, seq_idx=index)
        self.assertLess((z[0, 4:] - layer(rows[:1, 4:])[0]).abs().max().item(), 1e-5)
        self.assertLess((z[1] - layer(rows[1:])[0]).abs().max().item(), 1e-5)

    def test_any_length(self):
        layer = hydra()
        for length in (1, 2, 63, 64, 65, 1000):
            self.assertEqual(layer(torch.randn(1, length, 16)).shape, (1, length, 16))
        self.assertEqual(layer(torch.randn(0, 5, 16)).shape, (0, 5, 16))

    def test_weights_may_change_between_calls_and_modules_of_equal_shape_do_not_mix(self):
        a, b = hydra(), hydra()
        u = torch.randn(1, 6, 16, requires_grad=True)
        ya, yb = a(u), b(u)  # both graphs alive
        self.assertFalse(torch.equal(ya, yb))
        (ya.sum() + yb.sum()).backward()
        again = copy.deepcopy(a)
        again.zero_grad()
        v = u.detach().clone().requires_grad_()
        again(v).sum().backward()
        self.assertTrue(torch.equal(again.in_proj.weight.grad, a.in_proj.weight.grad))
        with torch.no_grad():
            a.out_proj.weight.mul_(2)
        self.assertTrue(torch.equal(a(u), 2 * ya))

    def test_a_weight_changed_before_backward_is_an_error(self):
        layer = hydra()
        y = layer(torch.randn(1, 6, 16))
        with torch.no_grad():
            layer.in_proj.weight.add_(1)
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            y.sum().backward()

    def test_frozen_weights_and_inference(self):
        layer = hydra()
        layer.in_proj.weight.requires_grad_(False)
        u = torch.randn(1, 6, 16)
        layer(u).sum().backward()
        self.assertIsNone(layer.in_proj.weight.grad)
        self.assertIsNotNone(layer.out_proj.weight.grad)
        expected = layer(u).detach()
        with torch.no_grad():
            self.assertTrue(torch.equal(layer(u), expected))
        with torch.inference_mode():
            self.assertTrue(torch.equal(layer(u), expected))
            made = hydra()
            self.assertEqual(made(u).shape, u.shape)

    def test_retained_graphs_and_checkpoints(self):
        layer = hydra()
        u = torch.randn(1, 6, 16, requires_grad=True)
        y = layer(u).sum()
        y.backward(retain_graph=True)
        first = u.grad.clone()
        y.backward()
        self.assertTrue(torch.equal(u.grad, 2 * first))
        v = u.detach().clone().requires_grad_()
        torch.utils.checkpoint.checkpoint(layer, v).sum().backward()
        self.assertTrue(torch.equal(v.grad, first))
        with self.assertRaises(RuntimeError):
            torch.autograd.grad(layer(u).sum(), u, create_graph=True)

    def test_saved_tensors_may_move(self):
        layer = hydra()
        u = torch.randn(1, 6, 16, requires_grad=True)
        layer(u).sum().backward()
        expected, u.grad = u.grad, None
        with torch.autograd.graph.saved_tensors_hooks(torch.clone, torch.clone):
            y = layer(u)
        y.sum().backward()
        self.assertTrue(torch.equal(u.grad, expected))

    def test_backward_under_autocast_computes_the_same(self):
        for name in hydramix.mixers():
            with self.subTest(name):
                block = hydramix.Block(16, name, **SMALL)
                u = torch.randn(1, 6, 16)
                gradients = []
                for on in (False, True):
                    block.zero_grad()
                    y = block(u).sum()
                    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=on):
                        y.backward()
                    gradients.append([w.grad for w in block.parameters()])
                for plain, other in zip(*gradients):
                    self.assertLess((plain - other).abs().max(), 0.02 * plain.abs().max() + 1e-6)

    def test_computed_weights_and_hooks(self):
        class Doubled(torch.nn.Module):
            def forward(self, weight):
                return 2 * weight

        plain = hydra()
        doubled = copy.deepcopy(plain)
        parametrize.register_parametrization(doubled.in_proj, "weight", Doubled())
        with torch.no_grad():
            plain.in_proj.weight.mul_(2)
        u = torch.randn(2, 6, 16)
        seen = []
        doubled.D.register_hook(lambda gradient: seen.append(gradient))
        for layer in (plain, doubled):
            layer(u).square().sum().backward()
        gradient = doubled.in_proj.parametrizations.weight.original.grad
        self.assertTrue(torch.equal(gradient, 2 * plain.in_proj.weight.grad))
        self.assertTrue(torch.equal(seen[0], plain.D.grad))

    def test_a_graph_that_is_never_used_gives_its_module_back(self):
        layer = hydra()
        u = torch.randn(1, 6, 16)
        weight = weakref.ref(layer.in_proj.weight)
        kept = [layer(u) for _ in range(3)]
        kept[1].sum().backward()
        del kept, layer
        gc.collect()
        self.assertIsNone(weight())

    def test_modes_see_two_operators_that_compute_the_same(self):
        seen = []

        class Watching(TorchDispatchMode):
            def __torch_dispatch__(self, function, types, args=(), kwargs=None):
                seen.append(str(function))
                return function(*args, **(kwargs or {}))

        for name in hydramix.mixers():
            with self.subTest(name):
                block = hydramix.Block(16, name, **SMALL)
                u = torch.randn(2, 6, 16, requires_grad=True)
                gradients = []
                for mode in (contextlib.nullcontext(), Watching()):
                    block.zero_grad()
                    u.grad = None
                    with mode:
                        block(u).square().sum().backward()
                    gradients.append([u.grad] + [w.grad for w in block.parameters()])
                for plain, watched in zip(*gradients):
                    self.assertTrue(torch.equal(plain, watched))
        self.assertIn("hydramix.run_forward.default", seen)
        self.assertIn("hydramix.run_backward.default", seen)

    def test_only_the_tensor_of_a_tape_holds_it(self):
        layer = hydra()
        u = torch.randn(1, 6, 16)
        weights = layer._weights()
        with torch.no_grad():
            y, tape = torch.ops.hydramix.run_forward(layer._spec, "forward", False, u, [None] * 5,
                                                     weights, [0])
            run_backward = torch.ops.hydramix.run_backward
            copy = tape.clone()
            for other in (copy, torch.zeros((), dtype=torch.int64), torch.zeros(0), y):
                with self.assertRaisesRegex(RuntimeError, "another tensor, or a copy"):
                    run_backward(y, other, u, weights, [0])
            view = tape.detach()
            del tape
            self.assertEqual(run_backward(y, view, u, weights, [0])[0].shape, u.shape)

    def test_nothing_is_captured_on_a_cpu(self):
        layer = hydra()
        u = torch.randn(1, 6, 16)
        for graphs in (False, True, True, True):
            y, _ = torch.ops.hydramix.run_forward(layer._spec, "forward", False, u, [None] * 5,
                                                  layer._weights(), [0], graphs)
            self.assertTrue(torch.equal(y, layer(u)))
        self.assertEqual(torch.ops.hydramix.captured_calls(), 0)

    def test_pickle_deepcopy_save(self):
        layer = hydra(learnable_init_states=True, dt_limit=(0.01, 0.5))
        u = torch.randn(1, 6, 16)
        buffer = io.BytesIO()
        torch.save(layer.state_dict(), buffer)
        buffer.seek(0)
        loaded = hydra(learnable_init_states=True, dt_limit=(0.01, 0.5))
        loaded.load_state_dict(torch.load(buffer))
        for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), loaded):
            self.assertTrue(torch.equal(other(u), layer(u)))

    def test_dtypes(self):
        layer = hydra()
        u = torch.randn(2, 9, 16)
        exact = copy.deepcopy(layer).double()(u.double())
        self.assertEqual(exact.dtype, torch.float64)
        self.assertLess((layer(u) - exact).abs().max().item(), 1e-4)
        half = layer(u.bfloat16())
        self.assertEqual(half.dtype, torch.bfloat16)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = layer(u)
        self.assertEqual(y.dtype, torch.bfloat16)
        self.assertTrue(torch.equal(y, half))
        y.float().sum().backward()
        self.assertEqual(layer.in_proj.weight.grad.dtype, torch.float32)
        self.assertEqual(copy.deepcopy(layer).bfloat16()(u.bfloat16()).dtype, torch.bfloat16)
        self.assertEqual(hydramix.Hydra(16, headdim=8, dtype=torch.float64).D.dtype, torch.float64)

    def test_meta_tensors(self):
        layer = hydra().to("meta")
        y = layer(torch.randn(2, 9, 16, device="meta", requires_grad=True))
        self.assertEqual((y.device.type, y.shape), ("meta", (2, 9, 16)))

    def test_dropout_follows_the_generator(self):
        block = hydramix.Block(16, "attention", dropout=0.5, **SMALL)
        u = torch.randn(2, 9, 16)
        torch.manual_seed(1)
        first = block(u)
        self.assertFalse(torch.equal(block(u), first))
        torch.manual_seed(1)
        self.assertTrue(torch.equal(block(u), first))
        block.eval()
        self.assertTrue(torch.equal(block(u), block(u)))

    def test_calls_draw_no_random_numbers(self):
        layer = hydramix.Hydra(80, d_state=24, headdim=20)  # no other test has this size
        u = torch.randn(1, 5, 80)
        before = torch.get_rng_state()
        layer(u)
        self.assertTrue(torch.equal(torch.get_rng_state(), before))

    def test_mixers(self):
        known = hydramix.mixers()
        self.assertGreater(len(known), 30)
        self.assertEqual(known["hydra"].cost, "O(L)")
        self.assertTrue(known["semiseparable"].causal)


class BadInput(unittest.TestCase):
    def test_arguments(self):
        layer, u = hydra(), torch.randn(2, 6, 16)
        mask = torch.ones(2, 6, dtype=torch.bool)
        cases = [
            (TypeError, "must be a tensor", lambda: layer([1.0])),
            (TypeError, "float32, float64 or bfloat16", lambda: layer(u.long())),
            (TypeError, "float16 is not supported", lambda: layer(u.half())),
            (TypeError, "module.double", lambda: layer(u.double())),
            (ValueError, r"d_model = 16; got \(2, 16\)", lambda: layer(u[:, 0])),
            (ValueError, "d_model = 16", lambda: layer(u[..., :8])),
            (ValueError, r"\(B, L\) = \(2, 6\)", lambda: layer(u, attention_mask=mask[:, :5])),
            (TypeError, "must be bool", lambda: layer(u, attention_mask=mask.float())),
            (ValueError, "0 and 1 only", lambda: layer(u, attention_mask=3 * mask.long())),
            (ValueError, "not both", lambda: layer(u[:1], attention_mask=mask[:1],
                                                   cu_seqlens=torch.tensor([0, 6]))),
            (ValueError, "one row", lambda: layer(u, cu_seqlens=torch.tensor([0, 6]))),
            (TypeError, "int32 or int64", lambda: layer(u[:1], cu_seqlens=torch.tensor([0., 6.]))),
            (ValueError, "start at 0", lambda: layer(u[:1], cu_seqlens=torch.tensor([1, 6]))),
            (ValueError, "decrease", lambda: layer(u[:1], cu_seqlens=torch.tensor([0, 5, 3, 6]))),
            (ValueError, r"\(1, 9\)", lambda: layer(u[:1], cu_seqlens=torch.tensor([0, 9]))),
            (ValueError, "seq_idx must be", lambda: layer(u, seq_idx=mask.long()[:1])),
            (ValueError, "not several", lambda: layer(u, mask.long(), attention_mask=mask)),
            (RuntimeError, "the input is on meta", lambda: layer(u.to("meta"))),
            (ValueError, "multiple of headdim", lambda: hydramix.Hydra(16, headdim=7)),
            (ValueError, "swish", lambda: hydramix.Hydra(16, headdim=8, activation="relu")),
            (ValueError, "expected one of", lambda: hydramix.Block(16, "hydr")),
            (ValueError, "unknown option 'd_stat'", lambda: hydramix.Block(16, d_stat=3)),
            (ValueError, "d_state", lambda: hydramix.Block(16, d_state="many")),
            (ValueError, "longer|max_length|beyond",
             lambda: self.checked_length()),
        ]
        for kind, message, call in cases:
            with self.subTest(message), self.assertRaisesRegex(kind, message):
                call()

    @staticmethod
    def checked_length():
        try:
            hydramix.Block(16, "dense", **SMALL)(torch.randn(1, 65, 16))
        except RuntimeError as problem:
            raise ValueError(str(problem))

    def test_weights_that_are_not_finite_are_named(self):
        layer = hydra()
        with torch.no_grad():
            layer.D[0] = float("nan")
        with self.assertRaisesRegex(RuntimeError, "D.*NaN"):
            layer(torch.randn(1, 3, 16))

    def test_a_library_for_another_pytorch_is_refused(self):
        built = dict(_library.BUILT_FOR)
        with self.assertRaisesRegex(ImportError, "built for PyTorch 2.9.1, but this is PyTorch 1.1"):
            _library.check_built_for({**built, "torch": "2.9.1"}, "1.13.1", True)
        with self.assertRaisesRegex(ImportError, "_GLIBCXX_USE_CXX11_ABI=0"):
            _library.check_built_for({**built, "torch": "1.13.0", "cxx11_abi": 0}, "1.13.1", True)
        _library.check_built_for({**built, "torch": "2.9.0"}, "2.9.1+cu130", built["cxx11_abi"])
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / _library.NAME).touch()
            (Path(folder) / "built_for.json").write_text(json.dumps({**built, "torch": "9.9"}))
            done = subprocess.run([sys.executable, "-c", "import hydramix"], text=True,
                                  capture_output=True,
                                  env={**os.environ, "HYDRAMIX_LIBRARY": folder})
        self.assertEqual(done.returncode, 1)
        self.assertIn("built for PyTorch 9.9", done.stderr.splitlines()[-1])


RANK = """
import sys, torch, hydramix
rank, store = int(sys.argv[1]), sys.argv[2]
torch.distributed.init_process_group("gloo", f"file://{store}", rank=rank, world_size=2)
torch.manual_seed(0)
layer = hydramix.Hydra(16, d_state=8, headdim=8)
u = torch.randn(2, 6, 16)
wrapped = torch.nn.parallel.DistributedDataParallel(layer)
wrapped(u[rank:rank + 1]).square().mean().backward()
alone = hydramix.Hydra(16, d_state=8, headdim=8)
alone.load_state_dict(layer.state_dict())
alone(u).square().mean().backward()
for p, q in zip(layer.parameters(), alone.parameters()):
    assert torch.allclose(p.grad, q.grad, rtol=1e-4, atol=1e-6)
"""


class Distributed(unittest.TestCase):
    def test_two_ranks_get_the_gradient_of_both_halves(self):
        if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
            self.skipTest("this PyTorch has no Gloo")
        with tempfile.TemporaryDirectory() as folder:
            ranks = [subprocess.Popen([sys.executable, "-c", RANK, str(rank), folder + "/store"])
                     for rank in range(2)]
            self.assertEqual([rank.wait(timeout=120) for rank in ranks], [0, 0])


if __name__ == "__main__":
    unittest.main()
