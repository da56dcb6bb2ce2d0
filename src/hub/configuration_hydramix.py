# SPDX-License-Identifier: Apache-2.0
"""The config of a HydraMix encoder for Hugging Face's transformers.

config.json is the config of HydraMix itself, with the keys that transformers expects beside it:

    format, version   "hydramix-model", 1
    model             the encoder: all options of `hydramix pretrain --model...`
    classifier        what the outputs of a fine-tuned model mean; missing for a masked-LM
    tokenizer         fingerprint of tokenizer.json

A folder that `save_pretrained` writes opens in `hydramix` too, so these sections follow what
transformers changes: the vocabulary (resize_token_embeddings) and the labels.
"""
import copy

try:
    from transformers import PreTrainedConfig
except ImportError:  # transformers 4
    from transformers import PretrainedConfig as PreTrainedConfig

KINDS = {
    "classes": "single_label_classification",
    "score": "regression",
    "labels": "multi_label_classification",
}


class HydraMixConfig(PreTrainedConfig):
    model_type = "hydramix"

    def __init__(self, model=None, classifier=None, vocab_size=None, **kwargs):
        self.model = copy.deepcopy(model) if model else {}
        self.classifier = copy.deepcopy(classifier) if classifier else None
        block = self.model.get("block", {})
        self.vocab_size = vocab_size or self.model.get("vocab", 0)
        self.hidden_size = block.get("d_model", 0)
        self.num_hidden_layers = self.model.get("layers", 0)
        for derived in ("hidden_size", "num_hidden_layers"):
            kwargs.pop(derived, None)
        # The masked-LM head multiplies by the word embeddings: one parameter, nothing to copy.
        kwargs["tie_word_embeddings"] = True
        super().__init__(**kwargs)

    def to_dict(self):
        output = super().to_dict()
        if output.get("model"):
            output["model"]["vocab"] = self.vocab_size
        if not output.get("classifier"):
            output.pop("classifier", None)
        elif output["classifier"]["kind"] not in ("score", "pairs"):
            names = [self.id2label[i] for i in range(self.num_labels)]
            section = output["classifier"]
            section.update(outputs=len(names), labels=names)
            if section["kind"] == "labels" and len(section["thresholds"]) != len(names):
                section["thresholds"] = [0.5] * len(names)
        return output

    def set_classifier(self, kind):
        """Makes this the config of a classifier of this kind, keeping what it already says."""
        section = {
            "pooling": "cls",
            "dropout": 0.1,
            "max_length": 0,
            "task": "",
            "thresholds": [],
            "text": "",
            "pair": "",
            "label": "",
            "separator": "",
            "pairs": False,
        }
        if kind == "pairs":
            section.update(pooling="mean", dropout=0.0)
        elif kind == "tokens":
            section.update(pooling="tokens")
        kept = self.classifier or {}
        same = kept.get("kind") == kind
        if same:
            section.update(kept)
        elif kind in ("pairs", *KINDS) and kept.get("pooling") in ("cls", "mean"):
            section["pooling"] = kept["pooling"]
        section["kind"] = kind
        if kind == "pairs":
            section.update(outputs=0, labels=[])
        elif kind == "score":
            if self.num_labels != 1:
                raise ValueError(f"regression has one output, a score; got {self.num_labels}")
            section.update(outputs=1, labels=[])
        else:
            names = [self.id2label[i] for i in range(self.num_labels)]
            section.update(outputs=len(names), labels=names)
            if kind == "labels" and len(section["thresholds"]) != len(names):
                section["thresholds"] = [0.5] * len(names)
        self.classifier = section

    def sequence_kind(self):
        """classes, score or labels: what a sequence classifier with this config predicts."""
        kept = (self.classifier or {}).get("kind")
        if self.problem_type is not None:
            return next(kind for kind, name in KINDS.items() if name == self.problem_type)
        if kept in KINDS and (kept != "score" or self.num_labels == 1):
            return kept
        return "score" if self.num_labels == 1 else "classes"
