// SPDX-License-Identifier: Apache-2.0
// Runs exported models with onnxruntime and compares with HydraMix's own outputs:
//   scripts/onnxruntime.sh tests/onnx/compare.js FOLDER
// The folder is written by tests/onnx/runtime_test. Exits with 1 where an error is above 1e-5, relative to the largest
// entry, or to 1.
'use strict';
const fs = require('fs');
const path = require('path');
const ort = require('onnxruntime-node');

const kTolerance = 1e-5;
const folder = process.argv[2];

function read(name, type) {
  const bytes = fs.readFileSync(path.join(folder, name));
  return new type(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));
}

// The largest difference at tokens; padding is NaN in `expected`.
function error(got, expected) {
  let difference = 0, largest = 1;
  for (let i = 0; i < expected.length; ++i) {
    if (Number.isNaN(expected[i])) continue;
    const here = Math.abs(got[i] - expected[i]);
    if (!(here <= difference)) difference = here;  // also where it is NaN
    largest = Math.max(largest, Math.abs(expected[i]));
  }
  return difference / largest;
}

async function main() {
  let failed = 0, compared = 0;
  for (const {model, output, typed, cases} of JSON.parse(fs.readFileSync(path.join(folder, 'cases.json'), 'utf8'))) {
    const session = await ort.InferenceSession.create(path.join(folder, model), {intraOpNumThreads: 1});
    const names = ['input_ids', 'attention_mask'].concat(typed ? ['token_type_ids'] : []);
    const errors = [];
    for (const {stem, shape, expected} of cases) {
      const feeds = {};
      for (const name of names) feeds[name] = new ort.Tensor('int64', read(`${stem}.${name}`, BigInt64Array), shape);
      const result = (await session.run(feeds))[output];
      const worst = result.dims.join() === expected.join() ?
        error(result.data, read(`${stem}.expected`, Float32Array)) : NaN;
      errors.push(`${shape[1]}: ${worst.toExponential(1)}`);
      if (!(worst <= kTolerance)) ++failed;
      ++compared;
    }
    console.log(`${model}  ${errors.join('  ')}`);
  }
  console.log(`${compared} batches, ${failed} with an error above ${kTolerance}`);
  process.exitCode = failed > 0 || compared === 0 ? 1 : 0;
}

main();
