#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seed corpus of the PyTorch archive fuzzer: fuzz/corpus/torch_archive.

Needs no PyTorch: classes with its names stand in for it, and Python's own pickle does the rest.
Files named ok_* are valid, all others must be refused; a test checks both.
"""
import collections
import io
import pickle
import struct
import sys
import types
import zipfile
from pathlib import Path

FOLDER = Path(__file__).parent / "corpus" / "torch_archive"
NUMBERS = struct.pack("<6f", *range(6))

torch = types.ModuleType("torch")
utils = types.ModuleType("torch._utils")
sys.modules.update({"torch": torch, "torch._utils": utils})


def stand_in(module, name):
    made = type(name, (), {"__module__": module.__name__, "__qualname__": name})
    setattr(module, name, made)
    return made


FloatStorage = stand_in(torch, "FloatStorage")
rebuild_tensor = stand_in(utils, "_rebuild_tensor_v2")
rebuild_parameter = stand_in(utils, "_rebuild_parameter")


class Call:
    def __init__(self, function, *arguments):
        self.function, self.arguments = function, arguments

    def __reduce__(self):
        return self.function, self.arguments


class Storage:
    def __init__(self, key="0", count=6):
        self.identity = ("storage", FloatStorage, key, "cpu", count)


class Pickler(pickle.Pickler):
    def persistent_id(self, value):
        return value.identity if isinstance(value, Storage) else None


def tensor(shape=(2, 3), strides=(3, 1), offset=0, storage=None):
    return Call(rebuild_tensor, storage or Storage(), offset, shape, strides, False, collections.OrderedDict())


def save(name, value, protocol=2, more=(), method=zipfile.ZIP_STORED):
    program = io.BytesIO()
    Pickler(program, protocol).dump(value)
    save_zip(name, [("a/data.pkl", program.getvalue()), ("a/data/0", NUMBERS), *more], method)


def save_zip(name, entries, method=zipfile.ZIP_STORED):
    with zipfile.ZipFile(FOLDER / name, "w", method) as archive:
        for entry, data in entries:
            archive.writestr(zipfile.ZipInfo(entry), data, method)


FOLDER.mkdir(parents=True, exist_ok=True)
weights = collections.OrderedDict([("model.a", tensor()), ("model.b", tensor((3, 2), (1, 3)))])
itself = {}
itself["a"] = itself

# Valid.
save("ok_one", {"w": tensor()})
for version in (2, 3, 4, 5):
    save(f"ok_protocol_{version}", {"w": tensor(), "n": 3.5, "l": [1, None, True], "b": b"x"}, version)
save("ok_composer", {"state": {"model": weights, "timestamp": 3}, "rng": [1]})
save("ok_state_dict", {"state_dict": weights, "epoch": 1})
save("ok_parameter", {"p": Call(rebuild_parameter, tensor(), True, collections.OrderedDict())})
save("ok_bare_tensor", tensor())
save("ok_list", [tensor((0, 4), (4, 1)), tensor((), (), 5)])
save("ok_byteorder", {"w": tensor()}, more=[("a/byteorder", b"little"), ("a/version", b"3\n")])
save("ok_call_not_made", {"w": tensor(), "e": Call(print, "run")})

# Refused.
save("contains_itself", itself)
save("only_a_call", Call(print, "run"))
save("beyond_storage", {"w": tensor((2, 4), (4, 1))})
save("offset_overflows", {"w": tensor(offset=2**63 - 1)})
save("strides_overflow", {"w": tensor(strides=(2**62, 2**62))})
save("size_overflows", {"w": tensor((2**62, 8), (0, 0))})
save("expanded", {"w": tensor((2**40,), (0,))})
save("count_too_large", {"w": tensor(storage=Storage(count=7))})
save("no_storage", {"w": tensor(storage=Storage("1"))})
save("big_endian", {"w": tensor()}, more=[("a/byteorder", b"big")])
save("compressed", {"w": tensor()}, method=zipfile.ZIP_DEFLATED)
save_zip("no_pickle", [("a/readme", b"")])
(FOLDER / "bare_pickle").write_bytes(pickle.dumps({}, 2))
