# SPDX-License-Identifier: Apache-2.0
"""Runs an exported model on texts, with its tokenizer, and prints a JSON array of the output for each text:

    pip install onnxruntime tokenizers
    python3 run.py MODEL.onnx TOKENIZER.json "A dog runs." "An animal moves."
"""
import json
import sys

import numpy
import onnxruntime
import tokenizers

model, tokenizer_file, *texts = sys.argv[1:]
tokenizer = tokenizers.Tokenizer.from_file(tokenizer_file)
tokenizer.enable_padding()
session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])

encodings = tokenizer.encode_batch(texts)
every = {
    "input_ids": [encoding.ids for encoding in encodings],
    "attention_mask": [encoding.attention_mask for encoding in encodings],
    "token_type_ids": [encoding.type_ids for encoding in encodings],
}
feeds = {port.name: numpy.array(every[port.name], numpy.int64) for port in session.get_inputs()}
for row in session.run(None, feeds)[0]:
    print(json.dumps(row.tolist()))
