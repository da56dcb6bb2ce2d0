# SPDX-License-Identifier: Apache-2.0
"""Models over folders, and the tokenizer."""

import copy
import json
import pickle
import tempfile
import threading
import unittest
from pathlib import Path

import torch

import hydramix

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
SIZES = dict(layers=2, d_model=16, headdim=8, d_state=8, d_conv=3)


def masked_lm(**options):
    tokenizer = hydramix.language.tokenizer()
    return hydramix.HydraForMaskedLM(len(tokenizer), tokenizer=tokenizer, **SIZES, **options)


class Models(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(5)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.batch = hydramix.language.tokenizer()(hydramix.language.texts(3))

    def test_a_masked_language_model_saves_and_loads(self):
        model = masked_lm()
        model.save_pretrained(self.folder)
        loaded = hydramix.HydraForMaskedLM.from_pretrained(self.folder)
        self.assertFalse(loaded.training)
        self.assertEqual(loaded.tokenizer.fingerprint(), model.tokenizer.fingerprint())
        self.assertTrue(torch.equal(loaded(**self.batch).logits, model.eval()(**self.batch).logits))
        again = pickle.loads(pickle.dumps(copy.deepcopy(loaded)))
        self.assertTrue(torch.equal(again(**self.batch).logits, loaded(**self.batch).logits))

    def test_the_loss_is_the_mean_over_the_labels(self):
        model = masked_lm().double()
        ids = self.batch["input_ids"]
        labels = torch.where(torch.rand(ids.shape) < 0.3, ids, torch.tensor(-100))
        logits = model(**self.batch).logits
        expected = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        loss = model(**self.batch, labels=labels).loss
        self.assertAlmostEqual(loss.item(), expected.item(), delta=1e-5)
        expected.backward()
        slow = [p.grad.clone() for p in model.parameters()]
        model.zero_grad()
        loss.backward()
        for p, g in zip(model.parameters(), slow):
            self.assertLess((p.grad - g).abs().max().item(), 1e-6)
        nothing = model(**self.batch, labels=torch.full_like(ids, -100)).loss
        self.assertEqual(nothing.item(), 0)

    def test_padded_and_packed_texts_agree(self):
        encoder = hydramix.HydraEncoder(276, **SIZES)
        tokenizer = hydramix.language.tokenizer()
        texts = hydramix.language.texts(3)
        padded, packed = encoder(**tokenizer(texts)), encoder(**tokenizer.pack(texts)._asdict())
        tokens = padded[self.batch["attention_mask"].bool()]
        self.assertLess((tokens - packed[0]).abs().max().item(), 1e-5)

    def test_a_classifier_starts_from_a_pretrained_model(self):
        model = masked_lm()
        model.save_pretrained(self.folder / "model")
        open_ = hydramix.HydraForSequenceClassification.from_pretrained
        classifier = open_(self.folder / "model", labels=["bad", "good"], pooling="mean")
        name = "bert.encoder.layer.1.layer.mixer.in_proj.weight"
        self.assertTrue(torch.equal(classifier.state_dict()[name], model.state_dict()[name]))
        loss = classifier(**self.batch, labels=torch.tensor([0, 1, 1])).loss
        loss.backward()
        classifier.save_pretrained(self.folder / "classifier")
        loaded = open_(self.folder / "classifier")
        self.assertEqual(loaded.labels, ["bad", "good"])
        self.assertTrue(torch.equal(loaded(**self.batch).logits,
                                    classifier.eval()(**self.batch).logits))
        encoder = hydramix.HydraEncoder.from_pretrained(self.folder / "classifier")
        encoder.save_pretrained(self.folder / "encoder")
        again = hydramix.HydraEncoder.from_pretrained(self.folder / "encoder")
        self.assertTrue(torch.equal(again(**self.batch), encoder(**self.batch)))

    def test_scores_and_tags(self):
        score = hydramix.HydraForSequenceClassification(1, 276, **SIZES)
        self.assertEqual(score(**self.batch, labels=torch.ones(3)).logits.shape, (3, 1))
        tags = hydramix.HydraForSequenceClassification(["O", "B"], 276, pooling="tokens", **SIZES)
        ids, mask = self.batch["input_ids"], self.batch["attention_mask"]
        labels = torch.where(mask == 1, 1, -100)
        output = tags(**self.batch, labels=labels)
        self.assertEqual(output.logits.shape, (*ids.shape, 2))
        self.assertTrue((output.logits[mask == 0] == 0).all())

    def test_bad_input(self):
        model = masked_lm()
        model.save_pretrained(self.folder / "model")
        ids = self.batch["input_ids"]
        classifier = hydramix.HydraForSequenceClassification(["a", "b"], 276, **SIZES)
        classifier.save_pretrained(self.folder / "classifier")
        (self.folder / "other").mkdir()
        (self.folder / "other" / "config.json").write_text(json.dumps({"model_type": "bert"}))
        empty = torch.tensor([[1, 1], [0, 0]])
        cases = [
            (TypeError, "input_ids must be an int64", lambda: model(ids.float())),
            (TypeError, "input_ids must be an int64", lambda: model([1, 2])),
            (ValueError, r"must be \(B, L\)", lambda: model(ids[0])),
            (ValueError, "labels must be", lambda: model(ids, labels=ids[:, 1:])),
            (RuntimeError, "ids", lambda: model(ids + 1000)),
            (ValueError, "have no token", lambda: classifier(ids[:2, :2], attention_mask=empty)),
            (FileNotFoundError, "nothing",
             lambda: hydramix.HydraForMaskedLM.from_pretrained(self.folder / "nothing")),
            (ValueError, "is a classifier",
             lambda: hydramix.HydraForMaskedLM.from_pretrained(self.folder / "classifier")),
            (ValueError, "labels=",
             lambda: hydramix.HydraForSequenceClassification.from_pretrained(
                 self.folder / "model")),
            (RuntimeError, "config.json",
             lambda: hydramix.HydraForMaskedLM.from_pretrained(self.folder / "other")),
            (RuntimeError, "stands twice|a name of its own",
             lambda: hydramix.HydraForSequenceClassification(
                 ["a", "a"], 276, **SIZES).save_pretrained(self.folder / "twice")),
        ]
        for kind, message, call in cases:
            with self.subTest(message), self.assertRaisesRegex(kind, message):
                call()
        (self.folder / "model" / "model.safetensors").write_bytes(b"\0" * 100)
        with self.assertRaisesRegex(RuntimeError, "model.safetensors"):
            hydramix.HydraForMaskedLM.from_pretrained(self.folder / "model")

    def test_ten_lines_learn_the_language(self):
        tokenizer = hydramix.language.tokenizer()
        model = masked_lm()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        for step in range(60):
            ids = tokenizer.pack(hydramix.language.texts(8, first=8 * step))
            hidden = (torch.rand(ids.input_ids.shape) < 0.3) & (ids.input_ids > 4)
            loss = model(ids.input_ids.masked_fill(hidden, tokenizer.mask_id),
                         labels=ids.input_ids.masked_fill(~hidden, -100),
                         cu_seqlens=ids.cu_seqlens).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step == 0:
                first = loss.item()
        self.assertAlmostEqual(first, 5.6, delta=0.3)  # log 276
        self.assertLess(loss.item(), 4.2)


class Tokenizers(unittest.TestCase):
    def test_ids_equal_those_of_hugging_face(self):
        golden = json.loads((GOLDEN / "tokenizer.json").read_text())
        tokenizers = {cased: hydramix.Tokenizer(golden["tokens"], lowercase=not cased)
                      for cased in (False, True)}
        checked = 0
        for case in golden["cases"]:
            if not isinstance(case["input"], str):
                continue  # a pair
            checked += 1
            with self.subTest(case["input"]):
                batch = tokenizers[case["cased"]](case["input"], max_length=case["max_length"],
                                                  return_offsets=True)
                self.assertEqual(batch["input_ids"][0].tolist(), case["ids"])
                self.assertEqual(batch["offset_mapping"][0].tolist(), case["offsets"])
        self.assertGreater(checked, 100)

    def test_batches(self):
        tokenizer = hydramix.language.tokenizer()
        batch = tokenizer(["the dog .", "the old dog ."], return_offsets=True)
        self.assertEqual(batch["input_ids"].shape, (2, 6))
        self.assertEqual(batch["attention_mask"].tolist(), [[1] * 5 + [0], [1] * 6])
        self.assertEqual(batch["input_ids"][0, -1].item(), tokenizer.pad_id)
        self.assertEqual(batch["offset_mapping"][1, 2].tolist(), [4, 7])
        self.assertEqual(tokenizer.decode(batch["input_ids"][1]), "the old dog.")
        pair = tokenizer("the dog", "the old dog", max_length=7)
        self.assertEqual(pair["token_type_ids"].tolist(), [[0, 0, 0, 0, 1, 1, 1]])
        self.assertEqual(tokenizer([])["input_ids"].shape, (0, 0))
        self.assertEqual(tokenizer.token(tokenizer.id("dog")), "dog")

    def test_files_pickles_and_copies(self):
        tokenizer = hydramix.language.tokenizer()
        with tempfile.TemporaryDirectory() as folder:
            tokenizer.save(Path(folder) / "tokenizer.json")
            loaded = hydramix.Tokenizer.from_pretrained(folder)
        for other in (loaded, pickle.loads(pickle.dumps(tokenizer)), copy.deepcopy(tokenizer)):
            self.assertEqual(other.fingerprint(), tokenizer.fingerprint())
        cased = hydramix.Tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "Dog"],
                                   lowercase=False)
        self.assertEqual(cased("Dog dog")["input_ids"].tolist(), [[2, 5, 1, 3]])

    def test_other_threads_run_meanwhile(self):
        tokenizer = hydramix.language.tokenizer()
        texts = hydramix.language.texts(500) * 40
        worker = threading.Thread(target=lambda: tokenizer._tokenizer.encode(texts, [], 0, 1))
        worker.start()
        turns = 0
        while worker.is_alive():
            turns += 1
        # A held lock would leave one turn or two.
        self.assertGreater(turns, 1000)

    def test_bad_input(self):
        tokenizer = hydramix.language.tokenizer()
        cases = [
            (TypeError, "expected texts; got int", lambda: tokenizer([3])),
            (TypeError, "list of tokens", lambda: hydramix.Tokenizer("vocab.txt")),
            (RuntimeError, r"\[UNK\]|special", lambda: hydramix.Tokenizer(["a"])),
            (ValueError, "as many", lambda: tokenizer(["a", "b"], ["c"])),
            (ValueError, "max_length", lambda: tokenizer(["a"], max_length=-1)),
            (KeyError, "zebra", lambda: tokenizer.id("zebra")),
            (ValueError, "ids are 0 to 275; got -1", lambda: tokenizer.decode([-1])),
            (FileNotFoundError, "nothing", lambda: hydramix.Tokenizer.from_file("/nothing")),
        ]
        for kind, message, call in cases:
            with self.subTest(message), self.assertRaisesRegex(kind, message):
                call()


if __name__ == "__main__":
    unittest.main()
