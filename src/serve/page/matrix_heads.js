// SPDX-License-Identifier: Apache-2.0
// All heads of a model as thumbnails, one button each, layer by layer.
import {element} from './dom.js';
import {pixels} from './matrix_picture.js';
import {onTheme, theme} from './theme.js';

// The share of |M| off the diagonal: how much a head reads other places.
function shareOfOthers({n, values}) {
  let all = 0;
  let own = 0;
  values.forEach((value, k) => {
    all += Math.abs(value);
    if (Math.floor(k / n) === k % n) own += Math.abs(value);
  });
  return all > 0 ? 1 - own / all : 0;
}

// Draws a matrix into a small canvas, one pixel per entry; the style sheet enlarges it.
export function drawSmall(canvas, matrix) {
  canvas.width = canvas.height = matrix.n;
  canvas.getContext('2d').drawImage(pixels(matrix, theme()), 0, 0);
}

export class HeadGrid {
  // `onHead(layer, head)`, both from 1: the reader chose one.
  constructor(onHead) {
    this.onHead = onHead;
    this.layers = [];
    this.title = element('h2');
    this.grid = element('div', {class: 'heads', role: 'group', 'aria-label': 'All heads'});
    onTheme(() => this.draw());
  }

  // layers: for each layer its heads, {n, values, scale}.
  show(layers) {
    this.layers = layers;
    const count = layers.flat().length;
    this.title.textContent = count === 1 ? 'The only head' : `All ${count} heads`;
    this.grid.replaceChildren(...layers.map((heads, l) => this.row(heads, l + 1)));
    this.draw();
  }

  row(heads, layer) {
    const button = (_, h) => {
      const name = `layer ${layer}, head ${h + 1}`;
      const click = () => this.onHead(layer, h + 1);
      const attributes = {type: 'button', title: name, 'aria-label': name, click};
      return element('button', attributes, element('canvas', {'aria-hidden': 'true'}));
    };
    const title = element('span', {}, `layer ${layer}`);
    return element('div', {class: 'layer'}, title, element('div', {}, heads.map(button)));
  }

  // The one that reads other places most: {layer, head}.
  mostMixing() {
    let best = {share: -1};
    this.layers.forEach((heads, l) =>
      heads.forEach((matrix, h) => {
        const share = shareOfOthers(matrix);
        if (share > best.share + 1e-9) best = {share, layer: l + 1, head: h + 1};
      }),
    );
    return best;
  }

  mark(layer, head) {
    this.grid.querySelectorAll('.layer').forEach((row, l) =>
      row.querySelectorAll('button').forEach((button, h) => {
        button.setAttribute('aria-pressed', String(l + 1 === layer && h + 1 === head));
      }),
    );
  }

  draw() {
    const matrices = this.layers.flat();
    this.grid.querySelectorAll('canvas').forEach((canvas, k) => drawSmall(canvas, matrices[k]));
  }
}
