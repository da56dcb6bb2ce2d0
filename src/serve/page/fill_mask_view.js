// SPDX-License-Identifier: Apache-2.0
// The fill-mask playground: candidates for every [MASK] as the reader pauses; one click puts a
// candidate in.
import {latest, post} from './api.js';
import {byId, element, whenPaused} from './dom.js';
import {answering, fillModels, notice} from './models.js';
import {percent} from './numbers.js';

const mask = '[MASK]',
  top = 8;
const example = 'surely the key looks [MASK] . what colour is the key ? black .';

// The text with its number-th [MASK] replaced. A token that begins with ## continues the word
// before it.
export function withWord(text, number, token) {
  let at = -1;
  for (let k = 0; k <= number; ++k) at = text.indexOf(mask, at + 1);
  if (at < 0) return text;
  const before = text.slice(0, at),
    after = text.slice(at + mask.length);
  return token.startsWith('##')
    ? before.trimEnd() + token.slice(2) + after
    : before + token + after;
}

export function fillMaskView() {
  const field = byId('fill-text'),
    message = byId('fill-notice'),
    answers = byId('fill-answers');
  const undo = byId('fill-undo'),
    selects = [byId('fill-model'), byId('fill-second')];
  const past = [];
  const ask = latest((signal, text, models) =>
    Promise.all(
      models.map(model => post('fill-mask', {model, inputs: text, top, truncate: true}, signal)),
    ),
  );

  function setText(text) {
    field.value = text;
    drawWords();
    load();
  }

  function change(text) {
    past.push(field.value);
    undo.disabled = false;
    setText(text);
  }

  // Every word as a button that hides it. The buttons hold places in the text, so they are drawn
  // again with every change of it.
  function drawWords() {
    const buttons = [];
    for (const found of field.value.matchAll(/\[MASK\]|[^\s[]+|\[/g)) {
      const word = found[0],
        hidden = word === mask;
      buttons.push(
        element(
          'button',
          {
            type: 'button',
            class: hidden ? 'mask' : null,
            disabled: hidden,
            'aria-label': hidden ? 'a hidden word' : `hide ${word}`,
            click: () => {
              change(
                field.value.slice(0, found.index) +
                  mask +
                  field.value.slice(found.index + word.length),
              );
              byId('fill-words').querySelector('button:not(:disabled)')?.focus();
            },
          },
          word,
        ),
      );
    }
    byId('fill-words').replaceChildren(...buttons);
  }

  // `text` is the one that the candidate answers.
  function candidate(text, word, number, place) {
    return element(
      'li',
      {},
      element(
        'button',
        {
          type: 'button',
          class: `candidate${place === 0 ? ' best' : ''}`,
          click: () => {
            if (field.value !== text) return; // its answer is on the way
            change(withWord(text, number, word.token));
            field.focus();
          },
        },
        element('span', {class: 'fill', style: {width: `${100 * word.probability}%`}}),
        element('span', {class: 'word'}, word.token),
        element('span', {class: 'share'}, percent(word.probability)),
      ),
    );
  }

  function draw(text, results, models) {
    answers.replaceChildren(
      ...results.flatMap(([answer], m) =>
        answer.masks.map((words, number) =>
          element(
            'section',
            {},
            element(
              'h2',
              {},
              [
                models.length > 1 ? models[m] : null,
                answer.masks.length > 1 ? `${mask} ${number + 1}` : null,
              ]
                .filter(Boolean)
                .join(', ') || 'Candidates',
            ),
            element(
              'ol',
              {class: 'candidates'},
              words.map((word, k) => candidate(text, word, number, k)),
            ),
          ),
        ),
      ),
    );
  }

  async function load() {
    const text = field.value,
      models = selects.map(select => select.value).filter(Boolean);
    if (!text.includes(mask)) {
      ask.abort();
      answers.replaceChildren();
      return notice(message, `Nothing is hidden. Write ${mask}, or tap a word above.`);
    }
    try {
      const results = await ask(text, models);
      if (!results) return undefined;
      draw(text, results, models);
      notice(message, null);
    } catch (error) {
      answers.replaceChildren();
      notice(message, error.message, true);
    }
    return undefined;
  }

  if (answering('/fill-mask').length === 0) {
    field.disabled = true;
    selects[0].disabled = true;
    fillModels(selects[1], '/fill-mask', 'nothing');
    notice(
      message,
      'No served model fills masks. Serve a pretrained one: hydramix serve runs/demo/hydra',
    );
    return {};
  }
  fillModels(selects[0], '/fill-mask');
  fillModels(selects[1], '/fill-mask', 'nothing');
  field.value = example;
  drawWords();
  field.addEventListener('input', drawWords);
  field.addEventListener('input', whenPaused(load, 250));
  for (const select of selects) select.addEventListener('change', load);
  undo.addEventListener('click', () => {
    setText(past.pop());
    undo.disabled = past.length === 0;
  });
  return {show: load};
}
