// SPDX-License-Identifier: Apache-2.0
// Writes src/text/unicode_tables.cpp: what the Hugging Face tokenizer does with each character, found by asking it.
//   scripts/hugging_face.sh scripts/make_unicode_tables.js > src/text/unicode_tables.cpp
'use strict'
const library = require('tokenizers')
const { version } = require('tokenizers/package.json')

const normalizer = (step) =>
  library.bertNormalizer({ cleanText: false, handleChineseChars: false, stripAccents: false, lowercase: false, ...step })
const clean = normalizer({ cleanText: true })
const spaceChinese = normalizer({ handleChineseChars: true })
const stripAccents = normalizer({ stripAccents: true })
const lowercase = normalizer({ lowercase: true })
const nfd = library.nfdNormalizer()
const words = library.bertPreTokenizer()

const text = (...characters) => String.fromCodePoint(...characters)
const parts = (string) => [...string].map((c) => c.codePointAt(0))
const hex = (c) => '0x' + c.toString(16).toUpperCase()
const expect = (condition, what) => {
  if (!condition) throw new Error(`the library no longer behaves as src/text/unicode.cpp assumes: ${what}`)
}

// Does canonical order put b before a?
const swaps = (a, b) => nfd.normalizeString(text(a, b)) !== text(a, b)

const white = [], controls = [], punctuation = [], marks = [], chinese = [], lower = [], decompositions = [], moving = []
for (let c = 0; c < 0x110000; ++c) {
  if (c >= 0xd800 && c < 0xe000) continue
  const self = text(c)
  const pieces = words.preTokenizeString('a' + self + 'a').length
  if (pieces === 2) white.push(c)
  if (pieces === 3) punctuation.push(c)

  const cleaned = clean.normalizeString(self)
  if (cleaned === '') controls.push(c)
  else expect(cleaned === (pieces === 2 ? ' ' : self), `cleaning ${hex(c)}`)

  const spaced = spaceChinese.normalizeString(self)
  if (spaced !== self) chinese.push(c)
  expect(spaced === self || spaced === ` ${self} `, `blanks around ${hex(c)}`)

  const small = parts(lowercase.normalizeString(self))
  if (small[0] !== c && c !== 0x130) lower.push([c, small[0]])
  expect(c === 0x130 ? small.join() === [0x69, 0x307].join() : small.length === 1, `lower case of ${hex(c)}`)

  const decomposed = parts(nfd.normalizeString(self))
  if (c >= 0xac00 && c <= 0xd7a3) {
    const s = c - 0xac00
    const jamo = [0x1100 + Math.floor(s / 588), 0x1161 + Math.floor((s % 588) / 28)]
    if (s % 28 > 0) jamo.push(0x11a7 + (s % 28))
    expect(decomposed.join() === jamo.join(), `decomposition of Hangul ${hex(c)}`)
  } else if (decomposed.length > 1 || decomposed[0] !== c) {
    expect(decomposed.length <= 4, `length of the decomposition of ${hex(c)}`)
    decompositions.push([c, decomposed])
  } else {
    if (stripAccents.normalizeString(self) === '') marks.push(c)
    // U+0334 has the lowest class, U+0345 the highest.
    if (swaps(c, 0x334) || swaps(0x345, c)) moving.push(c)
  }
}

// Sorts the characters that canonical order moves into classes, which are numbered from 1.
const classes = []
for (const c of moving) {
  let low = 0, high = classes.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (swaps(c, classes[middle][0])) low = middle + 1
    else high = middle
  }
  if (low < classes.length && !swaps(classes[low][0], c)) classes[low].push(c)
  else classes.splice(low, 0, [c])
}
const classOf = new Map(classes.flatMap((members, k) => members.map((c) => [c, k + 1])))

// Joins consecutive items for which follows(range, item) holds.
function runs(items, start, follows) {
  const result = []
  for (const item of items) {
    const last = result[result.length - 1]
    if (last && follows(last, item)) continue
    result.push(start(item))
  }
  return result
}
const ranges = (characters) =>
  runs(characters, (c) => [c, c], (range, c) => c === range[1] + 1 && ((range[1] = c), true))

// first, last, step, distance to the lower-case letter
const lowerRuns = runs(lower, ([c, to]) => [c, c, 1, to - c], (run, [c, to]) => {
  const step = c - run[1]
  const joins = to - c === run[3] && (run[0] === run[1] ? step <= 2 : step === run[2])
  if (joins) [run[1], run[2]] = [c, step]
  return joins
})
const classRuns = runs(moving, (c) => [c, c, classOf.get(c)], (run, c) =>
  c === run[1] + 1 && classOf.get(c) === run[2] && ((run[1] = c), true))

function table(type, name, items) {
  console.log(`\nconstexpr ${type} ${name}Table[] = {`)
  let line = ' '
  for (const item of items) {
    if (line.length + item.length + 2 > 100) {
      console.log(line)
      line = ' '
    }
    line += ` ${item},`
  }
  console.log(`${line}\n};\nconst std::span<const ${type}> ${name} = ${name}Table;`)
}
const braces = (numbers) => `{${numbers.join(', ')}}`
const rangeTable = (name, characters) =>
  table('Range', name, ranges(characters).map((range) => braces(range.map(hex))))

console.log(`// SPDX-License-Identifier: Apache-2.0
// Written by scripts/make_unicode_tables.js from tokenizers ${version}.
// clang-format off
#include "text/unicode_tables.h"

namespace hydramix::unicode {`)
rangeTable('kWhiteSpaces', white)
rangeTable('kControls', controls)
rangeTable('kPunctuation', punctuation)
rangeTable('kNonspacingMarks', marks)
rangeTable('kChineseBlocks', chinese)
table('LowerCase', 'kLowerCases', lowerRuns.map(([first, last, step, to]) => braces([hex(first), hex(last), step, to])))
table('CombiningClass', 'kCombiningClasses', classRuns.map(([first, last, k]) => braces([hex(first), hex(last), k])))
table('Canonical', 'kDecompositions', decompositions.map(([c, to]) => braces([hex(c), braces(to.map(hex))])))
console.log('\n}  // namespace hydramix::unicode')
