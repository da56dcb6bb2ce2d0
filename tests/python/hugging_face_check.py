#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Opens exported models with Hugging Face's own libraries, and what those save with ours.

    tests/python/hugging_face_check.py [COMMAND]     default: build/release/bin/hydramix

Needs transformers 5, safetensors and a PyTorch that they accept; sentence-transformers and
accelerate (for Trainer) where they are installed. A library that is missing is named, and what needs
it is skipped. Numbers are compared in float32 on the CPU to 1e-5.
"""
import importlib
import json
import pathlib
import subprocess
import sys
import tempfile

COMMAND = str(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build/release/bin/hydramix").resolve())
WORDS = "the dog near cats barks a bird sees of and every some".split()
TEXTS = [
    "the dog near the cats barks .",
    "the [MASK] barks .",
    "a",
    "every [MASK] near the [MASK] sees a bird . " * 9,
    "some unseen wörds , and 42 numbers !",
]
MASKED = [text for text in TEXTS if "[MASK]" in text]


def library(name):
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        print(f"{name} is not installed ({error}): skipped")
        return None
    print(f"{name} {module.__version__}")
    return module


def hydramix(*arguments, text=None, fails=False):
    words = [COMMAND, *map(str, arguments)]
    done = subprocess.run(words, input=text, text=True, capture_output=True)
    if (done.returncode != 0) != fails:
        raise SystemExit(f"hydramix {' '.join(words[1:])} exited with {done.returncode}:\n{done.stderr}{done.stdout}")
    return done.stderr if fails else done.stdout


def answers(command, folder, texts, *more):
    """The JSON lines of a command over texts."""
    lines = "\n".join(texts) + "\n"
    given = ["-"] if command != "predict" else [folder, "-"]
    model = [] if command == "predict" else ["--model", folder]
    out = hydramix(command, *given, *model, "--device", "cpu", "--to", "jsonl", *more, text=lines)
    return [json.loads(line) for line in out.splitlines()]


transformers, safetensors, torch = map(library, ("transformers", "safetensors", "torch"))
if not (transformers and safetensors and torch):
    print("Hugging Face's libraries are missing: nothing was checked")
    sys.exit(0)
sentence_transformers, accelerate = map(library, ("sentence_transformers", "accelerate"))
from transformers import (  # noqa: E402
    AutoConfig,
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    pipeline,
)

CLOSE = {"atol": 1e-5, "rtol": 1e-5}
failures = []


def check(what, condition, detail=""):
    print(f"{'ok  ' if condition else 'FAIL'} {what} {detail}", flush=True)
    if not condition:
        failures.append(what)


def compare(what, theirs, ours):
    theirs, ours = torch.as_tensor(theirs), torch.as_tensor(ours)
    same = theirs.shape == ours.shape and torch.allclose(theirs.float(), ours.float(), **CLOSE)
    error = (theirs - ours).abs().max().item() if theirs.shape == ours.shape else "other shapes"
    check(what, same, f"largest difference {error}")


def load(auto, folder, **more):
    return auto.from_pretrained(folder, trust_remote_code=True, **more).eval()


def tokenizer_of(folder):
    return AutoTokenizer.from_pretrained(folder, trust_remote_code=True)


def mask_log_probabilities(model, tokenizer, texts):
    """(masks, vocabulary), of a padded batch."""
    batch = tokenizer(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        logits = model(**batch).logits
    return logits[batch["input_ids"] == tokenizer.mask_token_id].log_softmax(-1)


def our_mask_log_probabilities(folder, tokenizer, texts, vocab):
    rows = []
    for answer in answers("fill-mask", folder, texts, "--top", vocab):
        for mask in answer["masks"]:
            row = torch.full((vocab,), -float("inf"), dtype=torch.float64)
            for word in mask:
                row[tokenizer.convert_tokens_to_ids(word["token"])] = word["probability"]
            rows.append(row.log())
    return torch.stack(rows).float()


def same_masks(what, model, folder, tokenizer):
    vocab = len(tokenizer)
    theirs = mask_log_probabilities(model, tokenizer, MASKED)[:, :vocab]
    ours = our_mask_log_probabilities(folder, tokenizer, MASKED, vocab)
    # A vocabulary of the model beyond the tokenizer's changes the normaliser of both alike.
    compare(what, theirs - theirs[:, :1], ours - ours[:, :1])


def embeddings(folder, texts=TEXTS):
    return torch.tensor(answers("embed", folder, texts))


def mean_vectors(model, tokenizer, texts=TEXTS):
    batch = tokenizer(texts, padding=True, truncation=True, return_tensors="pt")
    with torch.no_grad():
        hidden = model(**batch).last_hidden_state
    mask = batch["attention_mask"].unsqueeze(-1)
    return (hidden * mask).sum(1) / mask.sum(1)


def same_classes(what, model, folder, tokenizer, texts=TEXTS):
    batch = tokenizer(texts, padding=True, truncation=True, return_tensors="pt")
    with torch.no_grad():
        theirs = model(**batch).logits.softmax(-1)
    rows = answers("predict", folder, texts)
    labels = [model.config.id2label[i] for i in range(theirs.shape[1])]
    ours = torch.tensor([[row["probabilities"][label] for label in labels] for row in rows])
    compare(what, theirs, ours)


def pretrained(folder, mixer, *more):
    hydramix("pretrain", "--device", "cpu", "--model.vocab", 300, "--model.layers", 2, "--model.block.d-model", 64,
             "--model.block.headdim", 16, "--model.block.mixer-options.d-state", 16, "--model.block.mixer", mixer,
             "--data.evaluation-documents", 20, "--data.language-documents", 200, "--train.steps", 20,
             "--train.batch", 8, *more, "--out", folder)
    return folder


def check_masked_lm(home, mixer, *more):
    run = pretrained(home / f"run_{mixer}", mixer, *more)
    folder = home / f"hf_{mixer}"
    hydramix("export-hf", run, folder)
    hydramix("verify", folder)
    tokenizer, model = tokenizer_of(folder), load(AutoModelForMaskedLM, folder)
    check(f"{mixer}: loads as {type(model).__name__}", type(model).__name__ == "HydraMixForMaskedLM")
    same_masks(f"{mixer}: AutoModelForMaskedLM, padded on the right", model, folder, tokenizer)
    tokenizer.padding_side = "left"
    same_masks(f"{mixer}: padded on the left", model, folder, tokenizer)
    tokenizer.padding_side = "right"
    compare(f"{mixer}: AutoModel", mean_vectors(load(AutoModel, folder), tokenizer), embeddings(run))
    again = home / f"again_{mixer}"
    model.save_pretrained(again)
    tokenizer.save_pretrained(again)
    hydramix("verify", again)
    check(f"{mixer}: saved again, the same vectors", torch.equal(embeddings(again), embeddings(run)))
    model, tokenizer = load(AutoModelForMaskedLM, again), tokenizer_of(again)
    same_masks(f"{mixer}: saved again, AutoModelForMaskedLM", model, again, tokenizer)
    return folder


def check_pipeline(folder):
    fill = pipeline("fill-mask", model=str(folder), tokenizer=str(folder), trust_remote_code=True, device="cpu")
    theirs = fill(MASKED[0], top_k=5)
    ours = answers("fill-mask", folder, MASKED[:1], "--top", 5)[0]["masks"][0]
    ids = [fill.tokenizer.convert_tokens_to_ids(word["token"]) for word in ours]
    words = [t["token_str"] for t in theirs]
    check("pipeline('fill-mask'): the same words", [t["token"] for t in theirs] == ids, str(words))
    # Ours are normalised over the tokenizer's words, theirs over all rows of the embedding.
    compare("pipeline('fill-mask'): the same scores", [t["score"] / theirs[0]["score"] for t in theirs],
            [o["probability"] / ours[0]["probability"] for o in ours])


def check_sentences(home, folder):
    model = sentence_transformers.SentenceTransformer(str(folder), trust_remote_code=True, device="cpu")
    compare("SentenceTransformer.encode", model.encode(TEXTS), embeddings(folder))
    saved = home / "sentences"
    model.save(str(saved))
    compare("SentenceTransformer.save, hydramix embed", model.encode(TEXTS), embeddings(saved))
    again = sentence_transformers.SentenceTransformer(str(saved), trust_remote_code=True, device="cpu")
    compare("SentenceTransformer.save and again", again.encode(TEXTS), model.encode(TEXTS))


def check_encoder(home, folder):
    tokenizer, model = tokenizer_of(folder), load(AutoModel, folder)
    saved = home / "encoder"
    model.save_pretrained(saved)
    tokenizer.save_pretrained(saved)
    compare("AutoModel saved again, hydramix embed", mean_vectors(model, tokenizer), embeddings(saved))


def check_config(home, folder):
    """Only the config written again, beside weights that hold a copy of it."""
    before = embeddings(folder)
    AutoConfig.from_pretrained(folder, trust_remote_code=True).save_pretrained(folder)
    hydramix("verify", folder)
    check("config.json written again by transformers", torch.equal(embeddings(folder), before))


def check_classifier(home, run):
    rows = "".join(f"{text}\t{'long' if len(text.split()) > 5 else 'short'}\n" for text in TEXTS * 8)
    (home / "train.tsv").write_text("text\tlabel\n" + rows)
    hydramix("finetune", run, "--data", home / "train.tsv", "--device", "cpu", "--recipe", "tiny", "--epochs", 2,
             "--out", home / "finetuned")
    folder = home / "hf_classifier"
    hydramix("export-hf", home / "finetuned", folder)
    tokenizer, model = tokenizer_of(folder), load(AutoModelForSequenceClassification, folder)
    check("classifier: labels", sorted(model.config.id2label.values()) == ["long", "short"], str(model.config.id2label))
    same_classes("AutoModelForSequenceClassification", model, folder, tokenizer)
    saved = home / "classifier_again"
    model.save_pretrained(saved)
    tokenizer.save_pretrained(saved)
    same_classes("a classifier saved again", model, saved, tokenizer)


def check_new_head(home, folder):
    torch.manual_seed(1)
    tokenizer = tokenizer_of(folder)
    model = load(AutoModelForSequenceClassification, folder, num_labels=3)
    saved = home / "new_head"
    model.save_pretrained(saved)
    tokenizer.save_pretrained(saved)
    same_classes("a new head of three classes, saved, hydramix predict", model, saved, tokenizer)


def check_resized(home, folder):
    tokenizer, model = tokenizer_of(folder), load(AutoModelForMaskedLM, folder)
    model.resize_token_embeddings(len(tokenizer) + 7)
    saved = home / "resized"
    model.save_pretrained(saved)
    tokenizer.save_pretrained(saved)
    same_masks("resize_token_embeddings, saved", model, saved, tokenizer)


def check_trainer(home, folder):
    from transformers import DataCollatorForLanguageModeling, Trainer, TrainingArguments

    tokenizer, model = tokenizer_of(folder), load(AutoModelForMaskedLM, folder)
    generator = torch.Generator().manual_seed(3)
    texts = [" ".join(WORDS[i] for i in torch.randint(len(WORDS), (9,), generator=generator)) for _ in range(64)]
    rows = [tokenizer(text) for text in texts]
    arguments = TrainingArguments(
        output_dir=str(home / "trainer"), max_steps=50, per_device_train_batch_size=8, learning_rate=2e-3,
        logging_steps=5, save_strategy="no", report_to=[], use_cpu=True, seed=1,
    )
    collator = DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.25)
    trainer = Trainer(model=model, args=arguments, train_dataset=rows, data_collator=collator)
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    check("Trainer: 50 steps lower the loss", trainer.state.global_step == 50 and losses[-1] < losses[0], str(losses))
    saved = home / "trained"
    trainer.save_model(str(saved))
    tokenizer.save_pretrained(saved)
    hydramix("verify", saved)
    same_masks("Trainer: what it saved, in hydramix", model.eval(), saved, tokenizer)


def check_import(home, exported):
    tokenizer = tokenizer_of(exported)
    vocab = len(tokenizer)
    torch.manual_seed(2)
    options = {"vocab_size": vocab + 3, "hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4,
               "intermediate_size": 80, "max_position_embeddings": 512, "initializer_range": 0.2}
    for name in ("BertForMaskedLM", "BertForSequenceClassification", "BertModel"):
        config = transformers.BertConfig(**options, num_labels=3)
        model = getattr(transformers, name)(config).eval()
        source, folder = home / f"theirs_{name}", home / f"ours_{name}"
        model.save_pretrained(source)
        tokenizer.save_pretrained(source)
        hydramix("import-hf", source, folder)
        if name == "BertForMaskedLM":
            same_masks(f"import-hf {name}", model, folder, tokenizer)
            hydramix("export-hf", folder, home / "back")
            same_masks("import-hf, then export-hf", load(AutoModelForMaskedLM, home / "back"), folder, tokenizer)
        elif name == "BertForSequenceClassification":
            same_classes(f"import-hf {name}", model, folder, tokenizer)
        else:
            compare(f"import-hf {name}", mean_vectors(model, tokenizer), embeddings(folder))
    for config in (transformers.RobertaConfig(), transformers.ModernBertConfig()):
        name = config.model_type
        source = home / f"theirs_{name}"
        config.save_pretrained(source)
        tokenizer.save_pretrained(source)
        message = hydramix("import-hf", source, home / "refused", fails=True)
        check(f"import-hf refuses {name}", f'"{name}"' in message, message.strip())


def main():
    with tempfile.TemporaryDirectory() as name:
        home = pathlib.Path(name)
        folder = check_masked_lm(home, "hydra")
        check_masked_lm(home, "attention", "--model.positions", 512)
        for mixer in ("semiseparable", "add", "mult", "concat"):
            check_masked_lm(home, mixer)
        parts = [
            lambda: check_pipeline(folder),
            lambda: check_encoder(home, folder),
            lambda: check_classifier(home, home / "run_hydra"),
            lambda: check_new_head(home, folder),
            lambda: check_resized(home, folder),
            lambda: check_import(home, folder),
            lambda: check_config(home, folder),
        ]
        if sentence_transformers:
            parts.insert(1, lambda: check_sentences(home, folder))
        if accelerate:
            parts.insert(2, lambda: check_trainer(home, folder))
        for part in parts:  # one that fails does not hide the others
            try:
                part()
            except Exception:
                import traceback

                traceback.print_exc()
                failures.append("an exception")
    print(f"{len(failures)} failures" + (": " + "; ".join(failures) if failures else ""))
    sys.exit(1 if failures else 0)


main()
