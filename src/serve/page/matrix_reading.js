// SPDX-License-Identifier: Apache-2.0
// The part of the matrix that the cross marks, in words; and the sentence coloured by what its row reads.
import {cssColour, divergingColour} from './colours.js';
import {element} from './dom.js';
import {threeDigits} from './numbers.js';
import {onTheme, theme} from './theme.js';

const partWords = {
  forward: 'forward part, what stands before',
  backward: 'backward part, what follows',
  diagonal: 'diagonal, the word itself',
};

// Black or white, whichever can be read on the colour.
const textClass = ([r, g, b]) =>
  0.299 * r + 0.587 * g + 0.114 * b > 140 ? 'dark-text' : 'light-text';

export class Reading {
  // `onRow(row)`: the reader chose a word of the sentence.
  constructor(onRow) {
    this.onRow = onRow;
    this.value = element('span', {class: 'value'});
    this.place = element('span');
    this.readout = element('p', {class: 'readout', role: 'status'}, this.value, this.place);
    this.title = element('h3');
    this.chips = element('div', {class: 'chips'});
    this.sentence = element('div', {class: 'reads'}, this.title, this.chips);
    onTheme(() => this.colour());
  }

  show({matrix, tokens, part, row, column}) {
    const value = matrix.values[row * matrix.n + column];
    const word = k => element('span', {class: 'token'}, tokens[k]);
    const sign = value > 0 ? 'plus' : value < 0 ? 'minus' : '';
    this.value.textContent = threeDigits(value);
    this.value.title = String(value);
    this.value.className = `value ${sign}`;
    const note = partWords[part] ? ` \u00b7 ${partWords[part]}` : '';
    this.place.replaceChildren('row ', word(row), ' reads column ', word(column), note);
    this.title.replaceChildren('What ', word(row), ' reads');
    this.matrix = matrix;
    this.row = row;
    if (this.tokens !== tokens) {
      this.tokens = tokens;
      // The keyboard has the picture for this; so many stops would be in its way.
      const chip = (token, k) =>
        element('button', {type: 'button', tabindex: '-1', click: () => this.onRow(k)}, token);
      this.chips.replaceChildren(...tokens.map(chip));
    }
    this.colour();
  }

  colour() {
    if (!this.matrix) return;
    const {n, values, scale} = this.matrix;
    Array.from(this.chips.children).forEach((chip, k) => {
      const value = values[this.row * n + k];
      const colour = divergingColour(scale > 0 ? value / scale : 0, theme());
      chip.style.background = cssColour(colour);
      chip.className = textClass(colour);
      chip.title = threeDigits(value);
      chip.setAttribute('aria-pressed', String(k === this.row));
    });
  }
}
