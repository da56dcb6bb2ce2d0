#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seed corpus of the safetensors fuzzer: fuzz/corpus/safetensors.

Files named ok_* are valid, all others must be refused; a test checks both.
Inputs that the fuzzer finds are added by hand and survive a new run of this script.
"""
import json
import struct
from pathlib import Path

FOLDER = Path(__file__).parent / "corpus" / "safetensors"


def tensor(begin=0, end=4, dtype="F32", shape=(1,), **more):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end], **more}


def save(name, header, data=b"", length=None):
    if isinstance(header, dict):
        header = json.dumps(header)
    if isinstance(header, str):
        header = header.encode()
    length = len(header) if length is None else length
    (FOLDER / name).write_bytes(struct.pack("<Q", length) + header + data)


FOLDER.mkdir(parents=True, exist_ok=True)
four = bytes(4)
one = json.dumps(tensor())

# Valid.
save("ok_no_tensors", "{}")
save("ok_padded", "{}" + " " * 6)
save("ok_one", {"w": tensor()}, four)
save("ok_scalar", {"s": tensor(0, 8, "F64", ())}, bytes(8))
save("ok_empty", {"e": tensor(0, 0, "BF16", (3, 0, 2))})
save("ok_empty_between", {"b": tensor(4, 8), "e": tensor(4, 4, "F32", (0,)), "a": tensor()}, bytes(8))
save("ok_metadata", {"__metadata__": {"format": "pt", "": "\u00e9\n\""}, "w": tensor()}, four)
save("ok_metadata_empty", {"__metadata__": {}})
save("ok_misaligned", '{"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"w":'
     '{"dtype":"F64","shape":[1],"data_offsets":[1,9]}}', bytes(9))
save("ok_names", {"": tensor(0, 1, "I8"), "\"\\\n\u0000": tensor(1, 2, "BOOL"),
                  "\U0001f40d": tensor(2, 3, "U8")}, bytes(3))
save("ok_whitespace", '{ \n"w"\t: ' + one + " } \n", four)
names = ["BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "U16", "I16", "F16", "BF16", "U32", "I32", "F32",
         "U64", "I64", "F64"]
sizes = [1] * 5 + [2] * 4 + [4] * 3 + [8] * 3
ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
save("ok_every_dtype", {n: tensor(e - s, e, n) for n, s, e in zip(names, sizes, ends)}, bytes(ends[-1]))

# Length and framing.
(FOLDER / "empty_file").write_bytes(b"")
(FOLDER / "seven_bytes").write_bytes(b"\x02" + bytes(6))
(FOLDER / "git_lfs_pointer").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
save("length_zero", "{}", length=0)
save("length_all_ones", "{}", length=2**64 - 1)
save("length_sign_bit", "{}", length=2**63)
save("length_wraps_to_header", "{}", length=2**64 - 6)
save("length_over_limit", "{}", length=100_000_001)
save("length_one_too_long", "{}", length=3)
save("length_one_too_short", {"w": tensor()}, four, length=len(json.dumps({"w": tensor()})) - 1)

# JSON.
save("json_array", "[]")
save("json_leading_space", " {}")
save("json_bom", b"\xef\xbb\xbf{}")
save("json_trailing_comma", '{"w":' + one + ",}", four)
save("json_second_value", "{}{}")
save("json_zero_byte_ends_it", b"{}\0garbage")
save("json_bad_utf8", b'{"\xff\xfe":' + one.encode() + b"}", four)
save("json_overlong_utf8", b'{"\xc0\xaf":' + one.encode() + b"}", four)
save("json_lone_surrogate", '{"\\ud800":' + one + "}", four)
save("json_deep_arrays", '{"w":' + "[" * 1500)
save("json_deep_objects", '{"w":' + '{"w":' * 300)
save("json_nan", '{"w":{"dtype":"F32","shape":[NaN],"data_offsets":[0,4]}}', four)
save("json_number_overflow", '{"w":{"dtype":"F32","shape":[1e999],"data_offsets":[0,4]}}', four)

# Fields.
save("duplicate_tensor", '{"w":%s,"w":%s}' % (one, json.dumps(tensor(4, 8))), bytes(8))
save("duplicate_escaped", '{"w":%s,"\\u0077":%s}' % (one, json.dumps(tensor(4, 8))), bytes(8))
save("duplicate_field", '{"w":%s}' % one.replace('"shape"', '"shape": [1], "shape"'), four)
save("duplicate_metadata", '{"__metadata__":{},"__metadata__":{}}')
save("duplicate_metadata_key", '{"__metadata__":{"a":"1","a":"2"}}')
save("metadata_number", {"__metadata__": {"a": 1}})
save("metadata_nested", {"__metadata__": {"a": {}}})
save("metadata_is_tensor", {"__metadata__": tensor()}, four)
save("unknown_dtype", {"w": tensor(dtype="F33")}, four)
save("unknown_field", {"w": tensor(stride=[1])}, four)
save("missing_shape", {"w": {"dtype": "F32", "data_offsets": [0, 4]}}, four)
save("shape_negative", {"w": tensor(shape=[-1])}, four)
save("shape_float", {"w": tensor(shape=[1.0])}, four)
save("shape_over_int64", {"w": tensor(shape=[2**63])}, four)

# Layout.
save("shape_product_wraps", {"w": tensor(0, 0, "U8", [2**32, 2**32])})
save("shape_empty_wraps", {"w": tensor(0, 0, "U8", [2**62, 2**62, 0])})
save("shape_disagrees", {"w": tensor(shape=[2])}, four)
save("offsets_reversed", {"w": tensor(4, 0)}, four)
save("offsets_outside", {"w": tensor(4, 8)}, four)
save("offsets_wrap", {"w": tensor(2**64 - 4, 2**64 - 1, "U8", [3])}, four)
save("offsets_three", {"w": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1, 1]}}, b"\0")
save("overlap", {"a": tensor(), "b": tensor(2, 6)}, bytes(6))
save("overlap_empty_inside", {"a": tensor(), "e": tensor(2, 2, "U8", (0,))}, four)
save("hole", {"a": tensor(), "b": tensor(5, 9)}, bytes(9))
save("trailing_bytes", {"w": tensor()}, bytes(5))
