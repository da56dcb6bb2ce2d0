// SPDX-License-Identifier: Apache-2.0
// Times an exported model in ONNX Runtime on one thread, for one sequence of each length:
//   scripts/onnxruntime.sh scripts/onnx_times.js MODEL.onnx [LENGTH...]
// Prints the least CPU time of the runs in milliseconds, and per token in microseconds. CPU time, because other
// processes change it less than the time that passes.
'use strict';
const ort = require('onnxruntime-node');

const kRuns = 7;

async function main() {
  const [model, ...given] = process.argv.slice(2);
  const lengths = given.length > 0 ? given.map(Number) : [64, 128, 256, 512, 1024, 2048, 4096, 8192];
  const session = await ort.InferenceSession.create(model, {intraOpNumThreads: 1});
  for (const length of lengths) {
    const feeds = {};
    for (const name of session.inputNames) {
      const value = i => name === 'attention_mask' ? 1 : name === 'input_ids' ? 5 + i % 90 : 0;
      feeds[name] = new ort.Tensor('int64', BigInt64Array.from({length}, (_, i) => BigInt(value(i))), [1, length]);
    }
    await session.run(feeds);
    const times = [];
    for (let run = 0; run < kRuns; ++run) {
      const begin = process.cpuUsage();
      await session.run(feeds);
      const used = process.cpuUsage(begin);
      times.push((used.user + used.system) / 1e3);
    }
    const least = Math.min(...times);
    console.log(`${length} tokens in ONNX Runtime: ${least.toFixed(1)} ms, ${(1000 * least / length).toFixed(1)} us per token`);
  }
}

main();
