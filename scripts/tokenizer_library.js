// SPDX-License-Identifier: Apache-2.0
// BERT's tokenizer in the Hugging Face library: its tokenizer.json, and what it makes of texts. Run with
// scripts/hugging_face.sh.
'use strict'
const library = require('tokenizers')

const specialTokens = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]']

// The tokenizer.json of a list of tokens, which holds the special ones; token k has id k.
function tokenizerJson(tokens, cased) {
  const vocab = Object.fromEntries(tokens.map((token, id) => [token, id]))
  const special = (id, type_id) => ({ SpecialToken: { id, type_id } })
  const sequence = (id, type_id) => ({ Sequence: { id, type_id } })
  const single = [special('[CLS]', 0), sequence('A', 0), special('[SEP]', 0)]
  return JSON.stringify({
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: specialTokens.map((content) => ({
      id: vocab[content], content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: true,
    })),
    normalizer: {
      type: 'BertNormalizer', clean_text: true, handle_chinese_chars: true, strip_accents: null, lowercase: !cased,
    },
    pre_tokenizer: { type: 'BertPreTokenizer' },
    post_processor: {
      type: 'TemplateProcessing',
      single,
      pair: [...single, sequence('B', 1), special('[SEP]', 1)],
      special_tokens: Object.fromEntries(
        ['[CLS]', '[SEP]'].map((id) => [id, { id, ids: [vocab[id]], tokens: [id] }])),
    },
    decoder: { type: 'WordPiece', prefix: '##', cleanup: true },
    model: {
      type: 'WordPiece', unk_token: '[UNK]', continuing_subword_prefix: '##', max_input_chars_per_word: 100, vocab,
    },
  })
}

function fromJson(json, maxLength) {
  const tokenizer = library.Tokenizer.fromString(json)
  if (maxLength > 0) tokenizer.setTruncation(maxLength, { strategy: 'LongestFirst' })
  return tokenizer
}

// inputs: texts and pairs of texts
async function encodeAll(tokenizer, inputs) {
  const encodings = await Promise.all(inputs.map((input) => tokenizer.encode(...[input].flat())))
  return encodings.map((e) => ({ ids: e.getIds(), offsets: e.getOffsets(), type_ids: e.getTypeIds() }))
}

module.exports = { library, specialTokens, tokenizerJson, fromJson, encodeAll }
