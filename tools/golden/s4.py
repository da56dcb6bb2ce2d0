# SPDX-License-Identifier: Apache-2.0
"""Golden cases of S4D, S4 and S4ND from their authors' code.

    python3 tools/golden/s4.py CHECKOUT tests/golden     (CHECKOUT of github.com/state-spaces/s4)

Runs FFTConv with the kernels SSMKernelDiag and SSMKernelDPLR of models/s4/s4.py, without extensions.
The weights correspond as follows, where the authors' A, B, C and P are the other ones of each
conjugate pair, so imaginary parts have the opposite sign:

    ours                                  theirs
    D (H)                                 D (1, H)
    kernel.log_dt (H)                     kernel.inv_dt (H, 1)
    kernel.log_A_real, A_imag (H, N/2)    kernel.A_real, A_imag
    kernel.C (directions, H, N/2, 2)      kernel.C, conjugate
    kernel.B (H, N/2, 2)                  kernel.B (1, H, N/2, 2), conjugate; one for S4D
    kernel.P (H, N/2, 2)                  kernel.P (1, H, N/2, 2), conjugate

S4ND of src/models/sequence/modules/s4nd.py runs with the same kernels; kernel.0 and kernel.1 are our
vertical and horizontal. Their sum over real poles counts each twice, as if it were a pair, so their B is 1/2 there.
"""

import math
import pathlib
import subprocess
import sys
import types

import torch
from torch.nn.utils.stateless import functional_call

import case

HEADS, LENGTH, STATE, LONGEST = 3, 11, 8, 16
GRID = (4, 5)


def conjugate(pairs):
    return pairs * torch.tensor([1.0, -1.0], dtype=pairs.dtype)


def executed(path):
    module = types.ModuleType(path.stem)
    exec(compile(path.read_text(), path.name, "exec"), module.__dict__)
    return module


def authors_module(checkout):
    case.stand_in_for_einops()
    case.stand_in("scipy.special")
    case.stand_in("scipy", special=sys.modules["scipy.special"])
    case.stand_in("pytorch_lightning.utilities", rank_zero_only=lambda f: f)
    s4 = executed(checkout / "models/s4/s4.py")
    case.stand_in("src.models.sequence", SequenceModule=torch.nn.Module)
    case.stand_in("src.models.sequence.kernels", registry=s4.kernel_registry)
    case.stand_in("src.models.nn", LinearActivation=None, Activation=None, DropoutNd=None)
    case.stand_in("src.utils.train", get_logger=lambda name: None)
    s4.S4ND = executed(checkout / "src/models/sequence/modules/s4nd.py").S4ND
    return s4


def weights_of_poles(directions, real, seed):
    poles = STATE if real else STATE // 2
    weights = {
        "D": case.seeded(HEADS, seed=seed),
        "kernel.log_dt": case.seeded(HEADS, seed=seed + 1, scale=0.5) + math.log(0.05),
        "kernel.log_A_real": case.seeded(HEADS, poles, seed=seed + 2, scale=0.3) + math.log(0.5),
        "kernel.C": case.seeded(*([directions, HEADS, poles] + ([] if real else [2])), seed=seed + 3),
    }
    if not real:
        weights["kernel.A_imag"] = math.pi * torch.arange(poles) + case.seeded(HEADS, poles, seed=seed + 4)
    return weights


def run(s4, mode, x, weights, bidirectional, **arguments):
    """x (B, L, H, 1) -> (B, L, H, 1) by FFTConv with these weights."""
    layer = s4.FFTConv(HEADS, bidirectional=bidirectional, activation=None, mode=mode, verbose=False,
                       backend="naive", d_state=STATE, **arguments).double()
    theirs = {"D": weights["D"].unsqueeze(0), "kernel.inv_dt": weights["kernel.log_dt"].unsqueeze(-1),
              "kernel.A_real": weights["kernel.log_A_real"]}
    C = weights["kernel.C"]
    if arguments.get("is_real"):
        theirs.update({"kernel.C": C, "kernel.B": torch.full((1, HEADS, STATE), 0.5).double()})
    else:
        one = torch.tensor([1.0, 0.0]).double().expand(HEADS, STATE // 2, 2)
        theirs.update({"kernel.A_imag": weights["kernel.A_imag"], "kernel.C": conjugate(C),
                       "kernel.B": conjugate(weights.get("kernel.B", one)).unsqueeze(0)})
    if mode == "dplr":
        theirs["kernel.P"] = conjugate(weights["kernel.P"]).unsqueeze(0)
        layer.kernel.l_kernel = torch.tensor(LONGEST)  # C is that of this length already
    y, _ = functional_call(layer, theirs, (x.squeeze(-1).transpose(1, 2),))
    return y.transpose(1, 2).unsqueeze(-1)


def run_nd(s4, x, weights):
    """x (B, L, H, 1) -> (B, L, H, 1) by S4ND on a grid."""
    layer = s4.S4ND(HEADS, d_state=STATE, dim=2, kernel="diag", disc="zoh", backend="naive").double()
    theirs = {"D": weights["D"].unsqueeze(0)}
    one = torch.tensor([1.0, 0.0]).double().expand(1, HEADS, STATE // 2, 2)
    for axis, ours in enumerate(["vertical.", "horizontal."]):
        at = "kernel.%d." % axis
        theirs.update({at + "inv_dt": weights[ours + "log_dt"].unsqueeze(-1),
                       at + "A_real": weights[ours + "log_A_real"], at + "A_imag": weights[ours + "A_imag"],
                       at + "C": conjugate(weights[ours + "C"]), at + "B": one})
    grid = x.squeeze(-1).transpose(1, 2).unflatten(-1, GRID)
    y, _ = functional_call(layer, theirs, (grid,))
    return y.flatten(2).transpose(1, 2).unsqueeze(-1)


def main(checkout, out):
    s4 = authors_module(checkout)
    commit = subprocess.check_output(["git", "-C", checkout, "rev-parse", "--short", "HEAD"], text=True)
    source = "state-spaces/s4, models/s4/s4.py, commit " + commit.strip()

    def write(name, mixer, options, weights, seed, mode, **arguments):
        case.write_mixer_case(
            out / (name + ".safetensors"), mixer=mixer, options={"d_state": STATE, **options},
            x=case.seeded(2, LENGTH, HEADS, 1, seed=seed + 10), weights=weights, source=source, seed=seed,
            function=lambda x, params, w: run(s4, mode, x, w, mixer.endswith("bidirectional"), **arguments))

    for i, rule in enumerate(["zoh", "bilinear"]):
        write("s4d_" + rule, "s4d", {"discretisation": rule}, weights_of_poles(1, False, 100 * i),
              100 * i, "diag", disc=rule)
    write("s4d_real", "s4d", {"spectrum": "real"}, weights_of_poles(1, True, 200), 200, "diag",
          disc="zoh", is_real=True)
    write("s4d_bidirectional", "s4d_bidirectional", {}, weights_of_poles(2, False, 300), 300, "diag",
          disc="zoh")
    for i, mixer in enumerate(["s4", "s4_bidirectional"]):
        seed = 400 + 100 * i
        weights = weights_of_poles(1 + i, False, seed)
        weights["kernel.B"] = case.seeded(HEADS, STATE // 2, 2, seed=seed + 5)
        weights["kernel.P"] = case.seeded(HEADS, STATE // 2, 2, seed=seed + 6)
        write(mixer, mixer, {"max_length": LONGEST}, weights, seed, "dplr", l_max=LONGEST)

    axes = {"D": case.seeded(HEADS, seed=600)}
    for axis, seed in [("vertical.", 610), ("horizontal.", 620)]:
        poles = weights_of_poles(2, False, seed)
        axes.update({name.replace("kernel.", axis): poles[name] for name in poles if name != "D"})
    case.write_mixer_case(
        out / "s4nd.safetensors", mixer="s4nd", options={"d_state": STATE, "grid_width": GRID[1]},
        x=case.seeded(2, math.prod(GRID), HEADS, 1, seed=630), weights=axes, seed=600,
        source=source.replace("models/s4/s4.py", "src/models/sequence/modules/s4nd.py"),
        function=lambda x, params, w: run_nd(s4, x, w))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
