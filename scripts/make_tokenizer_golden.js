// SPDX-License-Identifier: Apache-2.0
// Writes tests/golden/tokenizer.json: what the Hugging Face library makes of the texts that the file already holds, and
// of the cases below.
//   scripts/hugging_face.sh scripts/make_tokenizer_golden.js
'use strict'
const fs = require('fs')
const path = require('path')
const { library, specialTokens, tokenizerJson, fromJson, encodeAll } = require('./tokenizer_library.js')
const { version } = require('tokenizers/package.json')

const golden = path.join(__dirname, '..', 'tests', 'golden')
const load = (name) => JSON.parse(fs.readFileSync(path.join(golden, name)))

// Characters on which Unicode's versions differ: a category or an order of marks newer than the library's, a lower case
// that only new versions have.
const characters = [
  0x8d3, 0x8d4, 0x8e2, 0x7fd, 0x9fe, 0x1885, 0x1886, 0x1dfb, 0x1df7, 0x2e43, 0x2e44, 0xa8c5, 0x111c9, 0x1123e, 0x11438,
  0x1144b, 0x11660, 0x1166c, 0x11c30, 0x11c92, 0x1e000, 0x1e944, 0x1e94a, 0x1e95e, 0x1e95f, 0x1c89, 0xa7cb, 0xa7cc,
  0xa7ce, 0xa7d2, 0xa7d4, 0xa7da, 0xa7dc, 0x10d50, 0x10d65, 0x16ea0, 0x16eb8, 0x2b820, 0x2b920, 0x166d, 0x1734, 0xa9bd,
  0x180e, 0x11938, 0x105c9, 0x1e9e, 0x130,
].map((c) => String.fromCodePoint(c))
const differing = [
  ...characters.map((c) => `a${c} ${c}b${c}`),
  '\u1dd5\u1df7', 'a\u1dd5\u1df7b', 'x\u08d3\u0301', 'a\u07fd\u0334b', 'a\u0301\u09feb', 'q\u1dfa\u0345\u0334z',
]
// Lengths of a pair around the maximum, with words of several pieces and with special tokens at the cut.
const words = (word, count) => Array(count).fill(word).join(' ')
const pairs = [
  [words('a', 9), words('b', 8)], [words('a', 8), words('b', 9)], [words('a', 8), words('b', 8)],
  [words('a', 7), words('b', 8)], [words('a', 20), words('b', 3)], [words('a', 3), words('b', 20)],
  [words('a', 7) + ' aa', words('b', 8)], ['a'.repeat(9), words('b', 8)], [words('aaaa', 2) + 'a', words('b', 8)],
  [words('a', 7) + ' [MASK] [MASK] a', words('b', 8)], [words('[MASK]', 9) + ' aa a', words('b', 8)],
  [words('a', 8) + '-a', words('b', 8)], ['', words('b', 12)], [words('a', 12), ''],
]

async function main() {
  const uncased = load('tokenizer_vocabulary.json')
  const published = Array.from({ length: uncased.size }, (_, id) => uncased.tokens[id] ?? `[left out ${id}]`)
  const before = load('tokenizer.json')
  const tokenizer = fromJson(tokenizerJson(published, false), 0)
  const single = async ({ text }) => {
    const { ids, offsets } = (await encodeAll(tokenizer, [text]))[0]
    return { text, ids, offsets }
  }
  const real = async ({ text }) => ({ text, ids: (await encodeAll(tokenizer, [text]))[0].ids })
  const pair = async ({ a, b }) => {
    const { ids, type_ids } = (await encodeAll(tokenizer, [[a, b]]))[0]
    return { a, b, ids, type_ids }
  }
  const all = (list, made) => Promise.all(list.map(made))

  const lower = library.lowercase()
  const letters = [...new Set(characters.flatMap((c) => [c, lower.normalizeString(c)]).join('') + 'abxqz-')]
  const tokens = [...specialTokens, ...letters.flatMap((c) => [c, '##' + c])]
  const cases = []
  for (const cased of [false, true]) {
    const json = tokenizerJson(tokens, cased)
    const inputs = [...differing.map((input) => [input, 0]),
      ...(cased ? [] : pairs.flatMap((input) => [3, 8, 9].map((max_length) => [input, max_length])))]
    for (const [input, max_length] of inputs) {
      const theirs = fromJson(json, max_length)
      const encoding = (await encodeAll(theirs, [input]))[0]
      cases.push({ input, cased, max_length, ...encoding, decoded: await theirs.decode(encoding.ids, true) })
    }
  }
  const result = {
    library: `Hugging Face tokenizers ${version}; singles, pairs, real: bert-base-uncased vocabulary; ` +
      'cases: the tokens beside them',
    singles: await all(before.singles, single),
    pairs: await all(before.pairs, pair),
    real: await all(before.real, real),
    tokens,
    cases,
  }
  const ascii = JSON.stringify(result).replace(/[\u007f-\uffff]/g, (c) =>
    '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0'))
  fs.writeFileSync(path.join(golden, 'tokenizer.json'), ascii + '\n')
}
main()
