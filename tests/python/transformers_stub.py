# SPDX-License-Identifier: Apache-2.0
"""As much of transformers as a folder of `hydramix export-hf` imports, and a reader of its files.

For machines without transformers: the modules of modeling_hydramix.py are plain PyTorch.
"""
import importlib.util
import json
import pathlib
import struct
import sys
import types

import torch

TYPES = {"F32": torch.float32, "F64": torch.float64, "I64": torch.int64, "BF16": torch.bfloat16}


class Config:
    def __init__(self, **kwargs):
        self.id2label = {int(k): v for k, v in kwargs.pop("id2label", {"0": "a", "1": "b"}).items()}
        self.problem_type = self.output_hidden_states = None
        self.__dict__.update(kwargs)

    @property
    def num_labels(self):
        return len(self.id2label)

    def to_dict(self):
        return json.loads(json.dumps(self.__dict__))


class Model(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config

    def post_init(self):
        pass


class Output(dict):
    def __getattr__(self, name):
        return self[name]

    def to_tuple(self):
        return tuple(value for value in self.values() if value is not None)


def install():
    package, outputs = types.ModuleType("transformers"), types.ModuleType("transformers.modeling_outputs")
    package.PreTrainedConfig, package.PreTrainedModel = Config, Model
    for name in ("BaseModelOutput", "MaskedLMOutput", "SequenceClassifierOutput", "TokenClassifierOutput"):
        setattr(outputs, name, Output)
    sys.modules.update({"transformers": package, "transformers.modeling_outputs": outputs})


def tensors(path):
    """The tensors of a .safetensors file."""
    data = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    body = bytearray(data[8 + length :])
    result = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        kind = TYPES[entry["dtype"]]
        flat = torch.frombuffer(body[begin:end], dtype=kind) if end > begin else torch.empty(0, dtype=kind)
        result[name] = flat.reshape(entry["shape"])
    return result


def open_folder(folder):
    """The model of the folder's config, with its weights."""
    folder = pathlib.Path(folder)
    spec = importlib.util.spec_from_loader("exported", loader=None, is_package=True)
    package = importlib.util.module_from_spec(spec)
    package.__path__ = [str(folder)]
    for name in [name for name in sys.modules if name.split(".")[0] == "exported"]:
        del sys.modules[name]
    sys.modules["exported"] = package
    modeling = importlib.import_module("exported.modeling_hydramix")
    config = modeling.HydraMixConfig(**json.loads((folder / "config.json").read_text()))
    weights = tensors(folder / "model.safetensors")
    name = config.architectures[0]
    if name == "HydraMixModel":
        weights = {key[len("bert.") :]: value for key, value in weights.items()}
    model = getattr(modeling, name)(config)
    if any(value.dtype == torch.float64 for value in weights.values()):
        model.double()
    model.load_state_dict(weights)
    return model.eval()
