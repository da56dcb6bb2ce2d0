# SPDX-License-Identifier: Apache-2.0
"""The paper's models over the folders of the ``hydramix`` command."""

import json
import os
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Type, TypeVar, Union

import torch
import torch.nn.functional as F
from torch import Tensor

from ._module import Options, SpecModule, autocast_dtype, check_mask, complete_options
from .files import Path, existing
from .tokenizer import Tokenizer

Model = TypeVar("Model", bound="_Model")


class ModelOutput(NamedTuple):
    """loss is None without labels; logits is None if only the loss was computed."""

    loss: Optional[Tensor]
    logits: Optional[Tensor]


class _Folder(NamedTuple):
    config: Options
    weights: Dict[str, Tensor]
    tokenizer: Optional[Tokenizer]

    @staticmethod
    def load(folder: Path) -> "_Folder":
        config, names, weights = torch.ops.hydramix.load_folder(existing(folder))
        has_tokenizer = os.path.exists(os.path.join(os.fspath(folder), "tokenizer.json"))
        return _Folder(json.loads(config), dict(zip(names, weights)),
                       Tokenizer.from_pretrained(folder) if has_tokenizer else None)


class _Model(SpecModule):
    """Folders, and the arguments of forward() that all models share."""

    tokenizer: Optional[Tokenizer] = None

    def _take(self, weights: Dict[str, Tensor]) -> None:
        """Copies weights by name; those missing in `weights` stay as they are."""
        self.to(next(iter(weights.values())).dtype)
        self.load_state_dict(weights, strict=False)

    def _config(self) -> Options:
        raise NotImplementedError

    def save_pretrained(self, folder: Path) -> None:
        """Writes config.json, model.safetensors and, if there is one, the tokenizer.

        The ``hydramix`` command and ``from_pretrained`` open the folder. Files are written
        atomically.
        """
        config = {"format": "hydramix-model", "version": 1, **self._config()}
        prefix = "" if "bert" in dict(self.named_children()) else "bert."
        names = [prefix + name for name in self._weight_names]
        tokenizer = None if self.tokenizer is None else self.tokenizer._tokenizer
        torch.ops.hydramix.save_folder(os.fspath(folder), json.dumps(config), names,
                                       self._weights(), tokenizer)

    def _dropout(self) -> bool:
        model = self.options["model"]
        return (model["dropout"] > 0 or model["output_dropout"] > 0
                or model["block"]["mixer_options"]["dropout"] > 0)

    def _call(self, method: str, input_ids: Tensor, attention_mask: Optional[Tensor],
              token_type_ids: Optional[Tensor], cu_seqlens: Optional[Tensor],
              labels: Optional[Tensor] = None) -> Tensor:
        for name, ids in (("input_ids", input_ids), ("token_type_ids", token_type_ids),
                          ("labels", labels)):
            if ids is None and name != "input_ids":
                continue
            if not isinstance(ids, Tensor) or ids.dtype != torch.int64:
                raise TypeError(f"hydramix: {name} must be an int64 tensor; got "
                                f"{ids.dtype if isinstance(ids, Tensor) else type(ids).__name__}.")
            if ids.dim() != 2 or ids.shape != input_ids.shape:
                raise ValueError(f"hydramix: {name} must be (B, L), as input_ids; got "
                                 f"{tuple(ids.shape)}.")
        check_mask(input_ids, attention_mask, cu_seqlens)
        bfloat16 = input_ids.is_cuda and autocast_dtype(input_ids.device) == torch.bfloat16
        return self._run(method, input_ids, types=token_type_ids, mask=attention_mask,
                         cu_seqlens=cu_seqlens, labels=labels, dropout=self._dropout(),
                         bfloat16=bfloat16)

    def extra_repr(self) -> str:
        model, block = self.options["model"], self.options["model"]["block"]
        return (f"mixer={block['mixer']!r}, layers={model['layers']}, d_model={block['d_model']}, "
                f"vocab={model['vocab']}")


class HydraEncoder(_Model):
    """The paper's encoder: embeddings and layers of blocks, without a head.

    Args:
        vocab: size of the vocabulary.
        tokenizer: is saved with the model.
        options: any option of the command's model by its name: ``layers``, ``d_model``, ``mixer``,
            ``headdim``, ``d_state``, ``dropout``, ...
    """

    def __init__(self, vocab: int = 30522, *, tokenizer: Optional[Tokenizer] = None, device=None,
                 dtype=None, **options: Any) -> None:
        super().__init__()
        self.tokenizer = tokenizer
        self._adopt("encoder", complete_options("encoder", {"vocab": vocab, **options}), device,
                    dtype)

    @classmethod
    def from_pretrained(cls: Type[Model], folder: Path) -> Model:
        """The encoder of any model folder of texts."""
        loaded = _Folder.load(folder)
        options = {**loaded.config["model"], "pooler": False}
        model = cls(options.pop("vocab"), tokenizer=loaded.tokenizer, **options)
        model._take({name[len("bert."):]: weight for name, weight in loaded.weights.items()
                     if name.startswith("bert.") and not name.startswith("bert.pooler.")})
        return model.eval()

    def _config(self) -> Options:
        vectors = {"outputs": 0, "pooling": "mean", "dropout": 0.0, "max_length": 0,
                   "task": "vectors", "labels": [], "kind": "pairs", "thresholds": [], "text": "",
                   "pair": "", "label": "", "separator": "", "pairs": False}
        return {"model": self.options["model"], "classifier": vectors}

    def forward(self, input_ids: Tensor, attention_mask: Optional[Tensor] = None,
                token_type_ids: Optional[Tensor] = None,
                cu_seqlens: Optional[Tensor] = None) -> Tensor:
        """ids (B, L) -> hidden states (B, L, d_model). See ``Hydra.forward`` for masks."""
        return self._call("forward", input_ids, attention_mask, token_type_ids, cu_seqlens)


class HydraForMaskedLM(_Model):
    """The encoder with BERT's masked-LM head.

    >>> model = hydramix.HydraForMaskedLM(len(tokenizer), layers=4, d_model=128, headdim=32)
    >>> loss = model(ids, attention_mask=mask, labels=labels).loss

    Arguments as for ``HydraEncoder``.
    """

    def __init__(self, vocab: int = 30522, *, tokenizer: Optional[Tokenizer] = None, device=None,
                 dtype=None, **options: Any) -> None:
        super().__init__()
        self.tokenizer = tokenizer
        self._adopt("masked_lm", complete_options("masked_lm", {"vocab": vocab, **options}), device,
                    dtype)

    @classmethod
    def from_pretrained(cls: Type[Model], folder: Path) -> Model:
        """Opens the folder of a masked-language model. Raises ValueError for a classifier's."""
        loaded = _Folder.load(folder)
        if "classifier" in loaded.config:
            raise ValueError(f"{os.fspath(folder)}: is a classifier; expected a masked-language "
                             "model. Open it with HydraForSequenceClassification.")
        options = dict(loaded.config["model"])
        model = cls(options.pop("vocab"), tokenizer=loaded.tokenizer, **options)
        model._take(loaded.weights)
        return model.eval()

    def _config(self) -> Options:
        return {"model": self.options["model"]}

    def forward(self, input_ids: Tensor, attention_mask: Optional[Tensor] = None,
                token_type_ids: Optional[Tensor] = None, labels: Optional[Tensor] = None,
                cu_seqlens: Optional[Tensor] = None) -> ModelOutput:
        """ids (B, L) -> logits (B, L, vocab); with labels the loss instead.

        Args:
            labels: (B, L) ids at the masked positions, -100 elsewhere. The loss is their mean
                cross-entropy. The head runs only on these positions, in chunks, so logits is None.
        """
        if labels is None:
            logits = self._call("forward", input_ids, attention_mask, token_type_ids, cu_seqlens)
            return ModelOutput(None, logits)
        loss = self._call("loss", input_ids, attention_mask, token_type_ids, cu_seqlens, labels)
        return ModelOutput(loss, None)


class HydraForSequenceClassification(_Model):
    """The encoder with a head for classes, as BERT is fine-tuned.

    Args:
        labels: names of the classes, or how many there are; 1: a score.
        vocab, tokenizer, options: as for ``HydraEncoder``.
        pooling: the vector of a text is that of its first token ("cls") or the mean ("mean");
            "tokens": logits for each token, (B, L, classes).
        classifier_dropout: share of channels dropped before the last layer in training.
    """

    def __init__(self, labels: Union[int, Sequence[str]] = 2, vocab: int = 30522, *,
                 tokenizer: Optional[Tokenizer] = None, pooling: str = "cls",
                 classifier_dropout: float = 0.1, device=None, dtype=None,
                 **options: Any) -> None:
        super().__init__()
        self.tokenizer = tokenizer
        names = [str(i) for i in range(labels)] if isinstance(labels, int) else list(labels)
        outputs = len(names)
        complete = complete_options("classifier", {"vocab": vocab, **options})
        complete["classifier"] = {"outputs": outputs, "pooling": pooling,
                                  "dropout": classifier_dropout, "max_length": 0}
        kind = "tokens" if pooling == "tokens" else "score" if outputs == 1 else "classes"
        self.task: Options = {"task": "python", "labels": [] if outputs == 1 else names,
                              "kind": kind, "thresholds": [], "text": "", "pair": "", "label": "",
                              "separator": "", "pairs": False}
        self._adopt("classifier", complete, device, dtype)

    @property
    def labels(self) -> List[str]:
        """Names of the classes; empty for a score."""
        return self.task["labels"]

    @classmethod
    def from_pretrained(cls: Type[Model], folder: Path,
                        labels: Optional[Union[int, Sequence[str]]] = None,
                        **changes: Any) -> Model:
        """Opens a classifier's folder; or starts one from a masked-language model.

        Args:
            labels: the classes of a new classifier around the folder's encoder. Needed for a
                masked-language model. The last layers start untrained.
            changes: other arguments of the constructor for a new classifier.
        """
        loaded = _Folder.load(folder)
        options = dict(loaded.config["model"])
        vocab = options.pop("vocab")
        section = dict(loaded.config.get("classifier", {}))
        if labels is not None:
            model = cls(labels, vocab, tokenizer=loaded.tokenizer, **{**options, **changes})
            own = model.state_dict()
            model._take({name: weight for name, weight in loaded.weights.items() if name in own
                         and not name.startswith("classifier.")})
            return model
        if not section:
            raise ValueError(f"{os.fspath(folder)}: is a masked-language model; expected a "
                             "classifier. Give labels=... to start one from it.")
        if section["outputs"] == 0:
            raise ValueError(f"{os.fspath(folder)}: gives vectors, not classes. Open it with "
                             "HydraEncoder.")
        model = cls(section["outputs"], vocab, tokenizer=loaded.tokenizer,
                    pooling=section["pooling"], classifier_dropout=section["dropout"], **options)
        model.task.update({key: value for key, value in section.items() if key in model.task})
        model._take(loaded.weights)
        return model.eval()

    def _config(self) -> Options:
        return {"model": {**self.options["model"], "pooler": self._has_pooler()},
                "classifier": {**self.options["classifier"], **self.task}}

    def _has_pooler(self) -> bool:
        return any(name.startswith("bert.pooler.") for name in self._weight_names)

    def _dropout(self) -> bool:
        return super()._dropout() or self.options["classifier"]["dropout"] > 0

    def forward(self, input_ids: Tensor, attention_mask: Optional[Tensor] = None,
                token_type_ids: Optional[Tensor] = None, labels: Optional[Tensor] = None,
                cu_seqlens: Optional[Tensor] = None) -> ModelOutput:
        """ids (B, L) -> logits (B, classes), and the loss for labels.

        Args:
            labels: (B) int64 classes: cross-entropy; (B) floats for a score: squared error;
                (B, classes) floats for several labels at once: binary cross-entropy; (B, L) int64
                for tokens, -100 where none is wanted.
        """
        logits = self._call("forward", input_ids, attention_mask, token_type_ids, cu_seqlens)
        return ModelOutput(None if labels is None else self._loss(logits, labels), logits)

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        if logits.shape[-1] == 1:
            return F.mse_loss(logits[..., 0], labels.to(logits.dtype))
        if labels.shape == logits.shape:
            return F.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype))
        if labels.shape != logits.shape[:-1]:
            raise ValueError(f"hydramix: labels must be {tuple(logits.shape[:-1])}; got "
                             f"{tuple(labels.shape)}.")
        return F.cross_entropy(logits.flatten(0, -2), labels.flatten())
