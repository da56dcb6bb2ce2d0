# SPDX-License-Identifier: Apache-2.0
"""Checks that need PyTorch 2.4 or later: opcheck, torch.compile, torch.export, and on a GPU
autocast and CUDA graphs. Says what it skips.

    ./hydramix python tests/python/torch2_check.py
    HYDRAMIX_PRESET=cuda ./hydramix python tests/python/torch2_check.py
"""

import copy
import gc

import torch
import torch.utils.checkpoint

import hydramix

failures = 0


def check(name, condition, detail=""):
    global failures
    print(f"{'ok' if condition else 'FAILED'}: {name} {detail}", flush=True)
    failures += not condition


def error(a, b):
    return ((a - b).abs().max() / b.abs().max()).item()


def arguments(module, u, mask=None):
    return (module._spec, "forward", False, u, [None, mask, None, None, None], module._weights())


def opcheck(device):
    for mixer in ("hydra", "attention", "toeplitz_dd"):
        block = hydramix.Block(32, mixer, headdim=16, d_state=16, max_length=64).to(device)
        u = torch.randn(2, 17, 32, device=device, requires_grad=True)
        mask = torch.ones(2, 17, dtype=torch.bool, device=device)
        mask[1, 9:] = False
        result = torch.library.opcheck(torch.ops.hydramix.run.default, arguments(block, u, mask),
                                       raise_exception=False)
        check(f"opcheck {mixer} on {device}", set(result.values()) == {"SUCCESS"}, result)


def compiled(device):
    for make in (lambda: hydramix.Hydra(64, d_state=16, headdim=16),
                 lambda: hydramix.Block(64, "attention", headdim=16)):
        torch._dynamo.reset()
        torch.manual_seed(0)
        layer = make().to(device)
        model = torch.nn.Sequential(torch.nn.LayerNorm(64), layer, torch.nn.GELU()).to(device)
        fast = torch.compile(copy.deepcopy(model), fullgraph=True)
        for length in (31, 40, 50):  # the second length makes the shape dynamic
            u = torch.randn(2, length, 64, device=device)
            a, b = model(u), fast(u)
            a.square().sum().backward()
            b.square().sum().backward()
            check(f"compile {type(layer).__name__} L={length} on {device}", error(b, a) < 1e-4)
        pairs = zip(model.parameters(), fast.parameters())
        worst = max(error(q.grad, p.grad) for p, q in pairs)
        check(f"  gradients on {device}", worst < 1e-3, f"{worst:.1e}")


def compiled_model(device):
    torch._dynamo.reset()
    model = hydramix.HydraForMaskedLM(100, layers=2, d_model=64, headdim=16, d_state=16).to(device)
    ids = torch.randint(5, 100, (3, 20), device=device)
    labels = torch.where(torch.rand(ids.shape, device=device) < 0.3, ids, -100)
    fast = torch.compile(model, fullgraph=True)
    check(f"compile the loss on {device}",
          error(fast(ids, labels=labels).loss, model(ids, labels=labels).loss) < 1e-5)


def exported(device):
    layer = hydramix.Hydra(64, d_state=16, headdim=16).to(device).eval()
    u = torch.randn(2, 33, 64, device=device)
    length = torch.export.Dim("length", min=2, max=4096)
    program = torch.export.export(layer, (u,), dynamic_shapes=({1: length},))
    other = torch.randn(2, 77, 64, device=device)
    check(f"export with a dynamic length on {device}",
          error(program.module()(other), layer(other)) < 1e-5)


def replayed():
    """Compiled for CUDA graphs a layer replays its calls, with the bits of eager mode."""
    torch._dynamo.reset()
    torch.manual_seed(1)
    eager = hydramix.Hydra(64, d_state=16, headdim=32).cuda()
    layer = copy.deepcopy(eager)
    fast = torch.compile(layer, mode="reduce-overhead")
    optimizers = [torch.optim.SGD(module.parameters(), lr=1e-3) for module in (eager, layer)]

    def batch(length=100):
        u = torch.randn(4, length, 64, device="cuda", dtype=torch.bfloat16)
        return u, torch.randn_like(u)

    def step(run, u, dy, **more):
        u = u.clone().requires_grad_()
        y = run(u, **more)
        y.backward(dy)
        return y.detach(), u.grad

    def equal(name, u, dy, compiled=fast, **more):
        results = [step(eager, u, dy, **more), step(compiled, u, dy, **more)]
        for p, q in zip(eager.parameters(), layer.parameters()):
            results[0] += (p.grad,)
            results[1] += (q.grad,)
        check(f"replayed: {name}", all(map(torch.equal, *results)))
        return results[1]

    kept = []
    for i in range(6):  # weights change between steps, and the results of some are kept
        result = equal(f"step {i}", *batch())
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        if i in (2, 3):
            kept += [(t, t.clone()) for t in result]
        del result  # whose memory the next step would leave alone
    check("replayed: one call more for each result kept", torch.ops.hydramix.captured_calls() == 3,
          torch.ops.hydramix.captured_calls())
    check("replayed: kept results stay", all(torch.equal(a, b) for a, b in kept))
    kept.clear()
    equal("another length", *batch(37))
    for i in range(2):
        equal(f"gradients accumulate, {i}", *batch())
    with torch.cuda.stream(torch.cuda.Stream()):
        equal("on another stream", *batch())
    torch.cuda.synchronize()
    mask = torch.arange(100, device="cuda") < torch.tensor([[100], [60], [1], [99]], device="cuda")
    for i in range(3):
        equal(f"not with a mask, {i}", *batch(), attention_mask=mask)
    for reentrant in (True, False):
        def checkpointed(u):
            return torch.utils.checkpoint.checkpoint(fast, u, use_reentrant=reentrant)

        for i in range(3):
            equal(f"checkpoint, reentrant {reentrant}, {i}", *batch(), compiled=checkpointed)
    with torch.autograd.set_detect_anomaly(True, check_nan=False):
        equal("anomaly mode", *batch())
    for i in range(2):
        layer.cpu()
        layer.cuda()
        for _ in range(3):
            equal(f"after a move of the weights, {i}", *batch())
        check("  the calls of their old places are gone", torch.ops.hydramix.captured_calls() <= 2,
              torch.ops.hydramix.captured_calls())

    first, second = batch(), batch()
    ys = [run(u) for run in (eager, fast) for u in (first[0], second[0])]
    check("replayed: two forward passes before a backward pass",
          torch.equal(ys[0], ys[2]) and torch.equal(ys[1], ys[3]))
    (ys[0] * ys[1]).float().sum().backward()
    (ys[2] * ys[3]).float().sum().backward()
    pairs = zip(eager.parameters(), layer.parameters())
    check("  and their gradients", all(torch.equal(p.grad, q.grad) for p, q in pairs))
    del ys

    u, dy = batch()
    u.requires_grad_()
    with torch._functorch.config.patch(donated_buffer=False):
        torch._dynamo.reset()
        y = fast(u)
        passes = [torch.autograd.grad(y, u, g, retain_graph=True)[0] for g in (dy, 2 * dy)]
    expected = torch.autograd.grad(eager(u), u, dy)[0]
    check("replayed: a graph retained for two passes",
          torch.equal(passes[0], expected) and torch.equal(passes[1], 2 * expected))

    del fast, layer, optimizers, optimizer, y, passes, pairs, equal, checkpointed
    torch._dynamo.reset()
    gc.collect()
    held = torch.cuda.memory_allocated()
    eager(u)  # the next call frees them
    check("replayed: nothing stays captured for weights that are gone",
          torch.cuda.memory_allocated() < held and torch.ops.hydramix.captured_calls() == 0,
          f"{held} {torch.cuda.memory_allocated()}")


def computed_weights():
    """Weights that are computed in each call, perhaps at another place."""
    torch._dynamo.reset()
    layer = hydramix.Hydra(64, d_state=32, headdim=32).cuda()
    own = layer._weights()

    def run(u):
        weights = [0.5 * weight for weight in own]
        return torch.ops.hydramix.run(layer._spec, "forward", False, u, [None] * 5, weights)

    fast = torch.compile(run, mode="reduce-overhead")
    counts = []
    for _ in range(20):
        u = torch.randn(4, 60, 64, device="cuda", dtype=torch.bfloat16)
        y = fast(u)
        y.float().sum().backward()
        layer.zero_grad()
        counts.append(torch.ops.hydramix.captured_calls())
    check("replayed: computed weights", torch.equal(y, run(u)))
    check("  are not captured again and again", counts[-1] == counts[9], counts)


def autocast():
    layer = hydramix.Hydra(768).cuda()
    u = torch.randn(4, 512, 768, device="cuda")
    exact = layer(u)
    for dtype in (torch.bfloat16, torch.float16):
        with torch.autocast("cuda", dtype=dtype):
            y = layer(u)
        y.float().square().mean().backward()
        check(f"autocast {dtype}", y.dtype == dtype and error(y.float(), exact) < 0.03,
              f"{error(y.float(), exact):.1e}")


def main():
    release = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    if release < (2, 4):
        print(f"skipped: this is PyTorch {torch.__version__}; opcheck, compile and export need 2.4")
        return 77  # CTest reads it as skipped
    print(f"PyTorch {torch.__version__}, hydramix {hydramix.__version__}")
    devices = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
    if len(devices) == 1:
        print("skipped: no GPU, so no autocast and no CUDA graphs on one")
    for part in (opcheck, compiled, compiled_model, exported):
        for device in devices:
            try:
                part(device)
            except Exception as problem:  # the other parts still run
                check(f"{part.__name__} on {device}", False, repr(problem)[:1500])
    for part in (autocast, replayed, computed_weights) if len(devices) == 2 else ():
        try:
            part()
        except Exception as problem:
            check(part.__name__, False, repr(problem)[:1500])
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
