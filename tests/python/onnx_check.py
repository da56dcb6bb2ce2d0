#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks exported models with onnx's checker and runs them with onnxruntime, as far as Python has them:

    HYDRAMIX_ONNX_CASES=build/onnx_cases build/release/tests/onnx_tests --gtest_filter='OnnxRuntime.*'
    python3 tests/python/onnx_check.py build/onnx_cases [--provider CUDAExecutionProvider]

Exits with 1 where a model is refused or an error is above 1e-5, relative to the largest entry, or to 1; with 77 where
neither library is installed."""
import argparse
import json
import pathlib
import sys

TOLERANCE = 1e-5


def found(name):
    try:
        return __import__(name)
    except ImportError:
        print(f"{name} is not installed")
        return None


def check(folder, models):
    onnx = found("onnx")
    if onnx is None:
        return False
    import onnx.checker
    import onnx.shape_inference

    for model in models:
        path = str(folder / model["model"])
        onnx.checker.check_model(path)
        onnx.shape_inference.infer_shapes(onnx.load(path), check_type=True, strict_mode=True)
    print(f"onnx {onnx.__version__}: {len(models)} models are valid")
    return True


def error(got, expected):
    """The largest difference at tokens; padding is NaN in `expected`."""
    import numpy

    if got.shape != expected.shape:
        return float("nan")
    token = ~numpy.isnan(expected)
    largest = max(1.0, float(numpy.abs(expected[token]).max()))
    return float(numpy.abs(got[token] - expected[token]).max()) / largest


def run(folder, models, provider):
    onnxruntime = found("onnxruntime")
    if onnxruntime is None:
        return False
    import numpy

    failed = compared = 0
    for model in models:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(str(folder / model["model"]), options, providers=[provider])
        if session.get_providers()[0] != provider:
            raise SystemExit(f"onnxruntime has no {provider} here; it has {onnxruntime.get_available_providers()}")
        names = ["input_ids", "attention_mask"] + (["token_type_ids"] if model["typed"] else [])
        errors = []
        for case in model["cases"]:
            feeds = {
                name: numpy.fromfile(folder / f"{case['stem']}.{name}", numpy.int64).reshape(case["shape"])
                for name in names
            }
            expected = numpy.fromfile(folder / f"{case['stem']}.expected", numpy.float32).reshape(case["expected"])
            worst = error(session.run([model["output"]], feeds)[0], expected)
            errors.append(f"{case['shape'][1]}: {worst:.1e}")
            compared += 1
            failed += not worst <= TOLERANCE
        print(f"{model['model']}  {'  '.join(errors)}")
    print(f"onnxruntime {onnxruntime.__version__}, {provider}: {compared} batches, {failed} with an error above {TOLERANCE}")
    if failed:
        raise SystemExit(1)
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--provider", default="CPUExecutionProvider")
    arguments = parser.parse_args()
    models = json.loads((arguments.folder / "cases.json").read_text())
    checked = check(arguments.folder, models)
    ran = run(arguments.folder, models, arguments.provider)
    return 0 if checked or ran else 77


if __name__ == "__main__":
    sys.exit(main())
