// SPDX-License-Identifier: Apache-2.0
// Runs an exported model on texts, with its tokenizer, and prints a JSON array of the output for each text:
//   npm install onnxruntime-node tokenizers
//   node run.js MODEL.onnx TOKENIZER.json "A dog runs." "An animal moves."
'use strict';
const fs = require('fs');
const ort = require('onnxruntime-node');
const {Tokenizer} = require('tokenizers');

async function main() {
  const [model, tokenizerFile, ...texts] = process.argv.slice(2);
  const tokenizer = Tokenizer.fromString(fs.readFileSync(tokenizerFile, 'utf8'));
  const session = await ort.InferenceSession.create(model);

  const encodings = await Promise.all(texts.map(text => tokenizer.encode(text)));
  const length = Math.max(...encodings.map(encoding => encoding.getLength()));
  const table = rows => {  // with zeros after the end of each row
    const padded = rows.flatMap(row => row.concat(Array(length - row.length).fill(0)));
    return new ort.Tensor('int64', BigInt64Array.from(padded, BigInt), [rows.length, length]);
  };
  const all = {
    input_ids: table(encodings.map(encoding => encoding.getIds())),
    attention_mask: table(encodings.map(encoding => encoding.getAttentionMask())),
    token_type_ids: table(encodings.map(encoding => encoding.getTypeIds())),
  };
  const feeds = Object.fromEntries(session.inputNames.map(name => [name, all[name]]));
  const output = (await session.run(feeds))[session.outputNames[0]];
  const width = output.data.length / texts.length;
  texts.forEach((_, i) => console.log(JSON.stringify(Array.from(output.data.slice(i * width, (i + 1) * width)))));
}

main();
