// SPDX-License-Identifier: Apache-2.0
// One model's matrices for a sentence: the picture of one head, what the chosen row reads, the
// parts, all heads as thumbnails, and the ranks of the blocks off the diagonal.
import {latest, post} from './api.js';
import {Chart} from './chart.js';
import {cssColour, divergingColour} from './colours.js';
import {download, element} from './dom.js';
import {partsOf, thumbnailOf} from './matrices.js';
import {npyFile, pngFile, svgFile} from './matrix_files.js';
import {drawSmall, HeadGrid} from './matrix_heads.js';
import {MatrixPicture} from './matrix_picture.js';
import {Reading} from './matrix_reading.js';
import {modelNamed, summary} from './models.js';
import {threeDigits} from './numbers.js';
import {onTheme, theme} from './theme.js';

// The whole is the sum of the other three.
const partSigns = {whole: '', forward: '=', backward: '+', diagonal: '+'};

const ranksExplained =
  'Cut the sentence before word i. The block below the diagonal carries the left half into the ' +
  'right half, the block above carries it back. A low rank means that a short summary of the ' +
  'words is enough, and with it linear time.';

function drawScale(canvas) {
  canvas.width = 201;
  canvas.height = 1;
  const context = canvas.getContext('2d');
  for (let k = 0; k <= 200; ++k) {
    context.fillStyle = cssColour(divergingColour(k / 100 - 1, theme()));
    context.fillRect(k, 0, 1, 1);
  }
}

export class MatrixStage {
  // `onCell(row, column)`: the reader moved the cross of this picture.
  constructor({onCell, onError}) {
    this.onError = onError;
    this.part = 'whole';
    this.fetchAll = latest((signal, body) => post('matrix', body, signal));
    this.fetchHead = latest((signal, body) => post('matrix', body, signal));
    this.picture = new MatrixPicture({
      label: 'Matrix of the chosen head',
      onCell: (row, column) => {
        this.read(row, column);
        onCell(row, column);
      },
    });
    this.reading = new Reading(row => this.picture.move(row, this.picture.cell?.[1] ?? row));
    this.heads = new HeadGrid((layer, head) => this.chooseHead(layer, head));
    this.ranks = new Chart({
      label: 'Ranks of the blocks off the diagonal',
      height: 200,
      empty: 'The server gives no ranks for this number of tokens.',
    });
    this.build();
    onTheme(() => this.drawColours());
  }

  build() {
    this.title = element('h2');
    this.note = element('span', {class: 'muted'});
    this.scaleEnds = [element('span'), element('span')];
    this.scaleBar = element('canvas', {role: 'img', 'aria-label': 'Scale of the colours'});
    this.table = element('div', {class: 'scroll'});
    this.details = element('details', {toggle: () => this.fillTable()});
    this.details.append(element('summary', {}, 'The numbers as a table'), this.table);
    const scale = element('div', {class: 'scale'}, this.scaleEnds[0], this.scaleBar);
    scale.append(this.scaleEnds[1]);
    const left = [this.reading.readout, this.picture.box, scale, this.reading.sentence];
    const right = [this.heads.title, this.heads.grid, this.downloadButtons()];
    this.box = element(
      'article',
      {class: 'stage'},
      element('header', {}, this.title, this.note),
      element(
        'div',
        {class: 'stage-body'},
        element('div', {}, left, this.partButtons()),
        element('div', {}, right),
      ),
      element('h2', {}, 'Ranks off the diagonal'),
      element('p', {class: 'muted'}, ranksExplained),
      this.ranks.box,
      this.details,
    );
  }

  partButtons() {
    this.buttons = {};
    const group = {class: 'parts', role: 'group', 'aria-label': 'Part of the matrix'};
    const box = element('div', group);
    for (const [part, sign] of Object.entries(partSigns)) {
      const attributes = {type: 'button', click: () => this.choosePart(part)};
      const picture = element('canvas', {'aria-hidden': 'true'});
      this.buttons[part] = element('button', attributes, picture, part);
      if (sign) box.append(element('span', {'aria-hidden': 'true'}, sign));
      box.append(this.buttons[part]);
    }
    return box;
  }

  downloadButtons() {
    const group = {class: 'downloads', role: 'group', 'aria-label': 'Download the picture'};
    const button = (kind, f) =>
      element('button', {type: 'button', class: 'plain', click: () => this.save(kind, f)}, kind);
    const title = () => `${this.model}, layer ${this.layer}, head ${this.head}`;
    return element(
      'div',
      group,
      'Download ',
      button('PNG', () => pngFile(this.picture)),
      button('SVG', () => svgFile(this.shown, this.picture.labels, title())),
      button('NPY', () => npyFile(this.shown)),
    );
  }

  async save(kind, f) {
    if (!this.parts) return;
    const part = this.part === 'whole' ? '' : `-${this.part}`;
    const name = `${this.model}-layer${this.layer}-head${this.head}${part}`;
    const types = {PNG: 'image/png', SVG: 'image/svg+xml', NPY: 'application/octet-stream'};
    const file = `${name.replace(/[^A-Za-z0-9._-]/g, '_')}.${kind.toLowerCase()}`;
    download(file, await f(), types[kind]);
  }

  // Gives up what is being loaded.
  abort() {
    this.fetchAll.abort();
    this.fetchHead.abort();
  }

  // Loads the matrices of a model for a text: all thumbnails, then the head that was shown, or the
  // one that reads other places most.
  async load(model, text) {
    const all = await this.fetchAll({model, inputs: text});
    if (!all) return;
    this.heads.show(all.thumbnails.map(layer => layer.map(thumbnailOf)));
    const known = this.model === model && all.heads[this.layer - 1] >= this.head;
    if (!known) Object.assign(this, this.heads.mostMixing());
    Object.assign(this, {model, text});
    await this.loadHead();
  }

  async loadHead() {
    const {model, text, layer, head} = this;
    const answer = await this.fetchHead({model, inputs: text, layer, head});
    if (!answer) return;
    const same = this.answer?.tokens.join('\n') === answer.tokens.join('\n');
    this.answer = answer;
    this.parts = partsOf(answer);
    this.title.textContent = model;
    const notes = [summary(modelNamed(model)), `layer ${layer}, head ${head}`];
    if (answer.cut) notes.push(`the first ${answer.tokens.length} tokens`);
    this.note.textContent = notes.join(' \u00b7 ');
    this.heads.mark(layer, head);
    if (!same) this.picture.cell = null;
    this.choosePart(this.part);
    this.follow(...(this.picture.cell ?? this.firstCell()));
    this.drawRanks();
  }

  async chooseHead(layer, head) {
    Object.assign(this, {layer, head});
    try {
      await this.loadHead();
    } catch (error) {
      this.onError(error);
    }
  }

  // The first picture tells something: a masked word and what it reads most, else the middle word.
  firstCell() {
    const {tokens} = this.answer;
    const n = tokens.length;
    const mask = tokens.indexOf('[MASK]');
    const row = mask >= 0 ? mask : Math.floor(n / 2);
    const size = j => (j === row ? -1 : Math.abs(this.parts.whole.values[row * n + j]));
    const column = tokens.reduce((best, _, j) => (size(j) > size(best) ? j : best), row);
    return [row, column];
  }

  // The matrix in the picture: the whole, or a part of it.
  get shown() {
    return this.parts[this.part];
  }

  choosePart(part) {
    this.part = part;
    for (const [name, button] of Object.entries(this.buttons))
      button.setAttribute('aria-pressed', String(name === part));
    if (!this.parts) return;
    this.picture.show(this.shown, this.answer.tokens);
    this.drawColours();
    if (this.picture.cell) this.read(...this.picture.cell);
    this.fillTable();
  }

  // Puts the cross on a cell, if the sentence has it.
  follow(row, column) {
    if (!this.parts || Math.max(row, column) >= this.answer.tokens.length) return;
    this.picture.mark(row, column);
    this.read(row, column);
  }

  read(row, column) {
    const {tokens} = this.answer;
    this.reading.show({matrix: this.shown, tokens, part: this.part, row, column});
  }

  // The parts and the scale; the other pictures draw themselves.
  drawColours() {
    if (!this.parts) return;
    for (const [part, button] of Object.entries(this.buttons))
      drawSmall(button.firstChild, this.parts[part]);
    drawScale(this.scaleBar);
    this.scaleEnds[0].textContent = threeDigits(-this.shown.scale);
    this.scaleEnds[1].textContent = threeDigits(this.shown.scale);
  }

  drawRanks() {
    const {below, above} = this.answer.ranks;
    const points = ranks => ranks.map((rank, k) => [k + 1, rank]);
    const possible = below.map((_, k) => Math.min(k + 1, below.length - k));
    this.ranks.show(
      [
        {name: 'below: M[i:, :i]', points: points(below)},
        {name: 'above: M[:i, i:]', points: points(above)},
        {name: 'largest possible', points: points(possible), faint: true},
      ],
      {xLabel: 'cut before word', fromZero: true, atRest: 'most'},
    );
  }

  // For screen readers and for copying. It is large, so it is filled when it is opened.
  fillTable() {
    if (!this.details.open || !this.parts) return;
    const {tokens} = this.answer;
    const {n, values} = this.shown;
    const head = element('tr', {}, element('td'));
    head.append(...tokens.map(token => element('th', {scope: 'col'}, token)));
    const row = (token, i) =>
      element(
        'tr',
        {},
        element('th', {scope: 'row'}, token),
        tokens.map((_, j) => element('td', {}, threeDigits(values[i * n + j]))),
      );
    const body = element('tbody', {}, tokens.map(row));
    this.table.replaceChildren(
      element('table', {class: 'numbers'}, element('thead', {}, head), body),
    );
  }
}
