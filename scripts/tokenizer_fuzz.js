// SPDX-License-Identifier: Apache-2.0
// Random texts through `hydramix tokenizer` and through the Hugging Face library; scripts/tokenizer_fuzz.sh runs it.
'use strict'
const { execFileSync } = require('child_process')
const fs = require('fs')
const os = require('os')
const path = require('path')
const { library, specialTokens, tokenizerJson, fromJson, encodeAll } = require('./tokenizer_library.js')

const [command, count, seed] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])]
const perRound = 5000

// Mulberry32: a small generator with a seed.
let state = seed >>> 0
function random() {
  state = (state + 0x6d2b79f5) >>> 0
  let t = state
  t = Math.imul(t ^ (t >>> 15), t | 1)
  t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
  return ((t ^ (t >>> 14)) >>> 0) / 4294967296
}
const below = (n) => Math.floor(random() * n)
const oneOf = (list) => list[below(list.length)]

// Windows of 64 characters. Every second text draws from the scripts of alphabets and syllables, every other from all
// of Unicode, where ideographs and private characters prevail.
const windowsOf = (ranges) =>
  ranges.flatMap(([first, last]) => Array.from({ length: (last - first + 1) >> 6 }, (_, k) => first + 64 * k))
const alphabets = windowsOf([
  [0x0, 0x33ff], [0xa000, 0xabff], [0xf900, 0xffff], [0x10000, 0x11fff], [0x16000, 0x16fff], [0x1aff0, 0x1fbff],
])
const everything = windowsOf([[0x0, 0xd7ff], [0xe000, 0x323ff], [0xe0000, 0xe01ff], [0xf0000, 0x10ffff]])
const marks = []
for (let c = 0; c < 0x20000; ++c)
  if ((c < 0xd800 || c >= 0xe000) && /\p{M}/u.test(String.fromCodePoint(c))) marks.push(c)
const blanks = [' ', ' ', ' ', ' ', '\t', '\n', '\r\n', '\u00a0', '\u2003', '\u3000', '\u0000', '\u200b', '\ufeff']
const pieces = ['[MASK]', '[SEP]', '[CLS]', '[PAD]', '[UNK]', '[', ']', '##', 'ab', "n't", " 's", ' do not', '...', '!', "'"]

function randomText() {
  const window = oneOf(random() < 0.5 ? alphabets : everything)
  const length = random() < 0.02 ? 90 + below(30) : 1 + below(24)  // a word has at most 100 characters
  const dense = random() < 0.1  // no blanks
  let text = ''
  for (let k = 0; k < length; ++k) {
    const draw = random()
    if (draw < 0.5) text += String.fromCodePoint(window + below(64))
    else if (draw < 0.65) text += String.fromCodePoint(oneOf([0x61, 0x41]) + below(26))
    else if (draw < 0.75) text += String.fromCodePoint(oneOf(marks))
    else if (draw < 0.85) text += dense ? 'x' : oneOf(blanks)
    else if (draw < 0.9) text += String.fromCodePoint(0x21 + below(94))
    else if (draw < 0.95) text += oneOf(pieces)
    else text += String.fromCodePoint(oneOf(everything) + below(64))
  }
  return text
}

// Characters and parts of the words in these texts; some are left out, so that some words are unknown.
function randomVocabulary(texts, cased) {
  const normalizer = library.bertNormalizer({
    cleanText: true, handleChineseChars: true, stripAccents: !cased, lowercase: !cased,
  })
  const words = library.bertPreTokenizer()
  const tokens = new Set(specialTokens)
  const add = (token, share) => random() < share && tokens.add(token)
  const characters = new Set()
  for (const text of texts) {
    const normal = normalizer.normalizeString(text)
    if (normal === '') continue
    for (const [word] of words.preTokenizeString(normal)) {
      const all = [...word]
      for (const c of all) characters.add(c)
      const first = below(all.length)
      const part = all.slice(first, first + 2 + below(4)).join('')
      add(first > 0 ? '##' + part : part, 0.3)
    }
  }
  for (const c of characters) {
    add(c, 0.97)
    add('##' + c, 0.97)
  }
  return [...tokens]
}

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tokenizer-fuzz-'))
process.on('exit', () => fs.rmSync(folder, { recursive: true }))
const vocabulary = path.join(folder, 'tokenizer.json')
// Standard input is a file: a pipe would limit neither side's memory nor time, and needs a second thread to fill it.
function ours(action, lines, ...options) {
  const input = path.join(folder, 'input.jsonl')
  fs.writeFileSync(input, lines.join('\n') + '\n')
  const output = execFileSync(command, ['tokenizer', action, '--vocab', vocabulary, '--jsonl', input, ...options],
    { maxBuffer: 1 << 30, encoding: 'utf8' })
  return output.split('\n').slice(0, -1)
}

const escaped = (value) => JSON.stringify(value).replace(/[^\x20-\x7e]/g, (c) =>
  '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0'))

async function main() {
  const differences = { ids: 0, offsets: 0, type_ids: 0, decoding: 0 }
  const total = { cased: 0, uncased: 0, pairs: 0, truncated: 0, tokens: 0, unknown: 0 }
  let compared = 0
  const report = (what, setting, input, theirs, mine) => {
    differences[what] += 1
    if (differences[what] <= 5)
      console.log(`${what} differ, ${setting}: ${escaped(input)}\n  library  ${escaped(theirs)}\n  hydramix ${escaped(mine)}`)
  }
  for (let round = 0; compared < count; ++round) {
    const cased = round % 2 === 1
    const maxLength = round % 4 < 2 ? 0 : 3 + below(30)
    const setting = `${cased ? 'cased' : 'uncased'}, max_length ${maxLength}`
    const inputs = Array.from({ length: Math.min(perRound, count - compared) }, () =>
      random() < 0.4 ? [randomText(), randomText()] : randomText())
    const json = tokenizerJson(randomVocabulary(inputs.flat(), cased), cased)
    fs.writeFileSync(vocabulary, json)
    const tokenizer = fromJson(json, maxLength)
    const expected = await encodeAll(tokenizer, inputs)
    const found = ours('encode', inputs.map((input) => JSON.stringify(input)), '--max-length', String(maxLength))
    if (found.length !== inputs.length) throw new Error(`hydramix wrote ${found.length} lines for ${inputs.length} texts`)
    for (let k = 0; k < inputs.length; ++k) {
      const mine = JSON.parse(found[k])
      for (const what of ['ids', 'offsets', 'type_ids'])
        if (JSON.stringify(mine[what]) !== JSON.stringify(expected[k][what]))
          report(what, setting, inputs[k], expected[k][what], mine[what])
      total.pairs += Array.isArray(inputs[k])
      total.tokens += expected[k].ids.length
      total.unknown += expected[k].ids.filter((id) => id === 1).length
      total.truncated += maxLength > 0 && expected[k].ids.length === maxLength
    }
    const skip = round % 3 !== 0
    const ids = expected.map((encoding) => encoding.ids)
    const texts = await tokenizer.decodeBatch(ids, skip)
    const decoded = ours('decode', ids.map((list) => JSON.stringify(list)), ...(skip ? [] : ['--keep-special']))
    for (let k = 0; k < inputs.length; ++k)
      if (decoded[k] !== texts[k]) report('decoding', setting, ids[k], texts[k], decoded[k])
    compared += inputs.length
    total[cased ? 'cased' : 'uncased'] += inputs.length
    process.stderr.write(`\r${compared} of ${count}`)
  }
  process.stderr.write('\n')
  const sum = Object.values(differences).reduce((a, b) => a + b)
  console.log(`${compared} texts against tokenizers ${require('tokenizers/package.json').version}, seed ${seed}: ` +
    `${total.uncased} uncased, ${total.cased} cased, ${total.pairs} pairs, ${total.truncated} truncated; ` +
    `${total.tokens} tokens, ${total.unknown} of them unknown`)
  console.log(`differences: ${sum} (ids ${differences.ids}, offsets ${differences.offsets}, ` +
    `type ids ${differences.type_ids}, decoding ${differences.decoding})`)
  process.exitCode = sum === 0 ? 0 : 1
}
main()
