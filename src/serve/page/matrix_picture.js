// SPDX-License-Identifier: Apache-2.0
// One matrix on a canvas, with its labels along both axes. The mouse, a finger and the arrow keys
// move a cross over its cells; a listener gets its place. The picture fits the width that it
// gets, every cell the same whole number of pixels; a matrix with more cells than that scrolls in
// its own box.
import {divergingColour} from './colours.js';
import {element} from './dom.js';
import {onTheme, theme} from './theme.js';

const font = '12px ui-monospace, Menlo, Consolas, monospace';
const labelPitch = 13,
  labelGap = 6,
  longestLabel = 14,
  smallestCell = 3;

const inks = {
  light: {paper: '#ffffff', ink: '#1c202a', muted: '#626976', frame: '#bcc1ca'},
  dark: {paper: '#14171d', ink: '#e8eaef', muted: '#a3abb9', frame: '#49505c'},
};

export const shortLabel = text => {
  const letters = Array.from(text);
  return letters.length <= longestLabel
    ? text
    : `${letters.slice(0, longestLabel - 1).join('')}\u2026`;
};

// One pixel per entry.
export function pixels({n, values, scale}, colours) {
  const canvas = element('canvas', {width: n, height: n});
  const context = canvas.getContext('2d');
  const image = context.createImageData(n, n);
  values.forEach((value, k) => {
    const [r, g, b] = divergingColour(scale > 0 ? value / scale : 0, colours);
    image.data.set([r, g, b, 255], 4 * k);
  });
  context.putImageData(image, 0, 0);
  return canvas;
}

export class MatrixPicture {
  // `onCell(row, column)` is called for every new place of the cross.
  constructor({label, onCell, largestCell = 48}) {
    this.onCell = onCell;
    this.largestCell = largestCell;
    this.cell = null;
    this.canvas = element('canvas', {
      tabindex: '0',
      role: 'application',
      'aria-label': label,
      'aria-roledescription': 'matrix; arrow keys move from cell to cell',
      pointermove: event => this.point(event),
      pointerdown: event => this.point(event),
      keydown: event => this.press(event),
      focus: () => this.cell ?? this.move(0, 0),
    });
    this.box = element('div', {class: 'picture'}, this.canvas);
    onTheme(() => this.draw());
    new ResizeObserver(() => {
      if (this.box.clientWidth !== this.drawnWidth) this.draw();
    }).observe(this.box);
  }

  // matrix: {n, values, scale}; labels: one per row and column.
  show(matrix, labels) {
    this.matrix = matrix;
    this.labels = labels.map(shortLabel);
    if (this.cell && Math.max(...this.cell) >= matrix.n) this.cell = null;
    this.draw();
  }

  // Puts the cross on a cell without telling the listener.
  mark(row, column) {
    this.cell = row < this.matrix?.n && column < this.matrix?.n ? [row, column] : null;
    this.draw();
  }

  draw() {
    this.drawnWidth = this.box.clientWidth; // 0 while the view is hidden
    if (!this.matrix || this.drawnWidth === 0) return;
    this.paint(this.canvas, this.drawnWidth, theme(), devicePixelRatio);
  }

  // Draws the picture, with its labels, into a canvas about `width` CSS pixels wide.
  paint(canvas, width, colours, ratio) {
    const {n} = this.matrix,
      context = canvas.getContext('2d'),
      ink = inks[colours];
    context.font = font;
    const space = Math.max(...this.labels.map(label => context.measureText(label).width));
    const edge = Math.ceil(space) + labelGap + 1;
    const cell = Math.max(smallestCell, Math.min(this.largestCell, (width - edge - 2) / n));
    const side = Math.max(1, Math.floor(cell * ratio)) / ratio; // whole pixels of the screen
    this.area = {edge, side};
    const total = edge + n * side + 2;
    canvas.width = Math.ceil(total * ratio);
    canvas.height = canvas.width;
    canvas.style.width = `${canvas.width / ratio}px`;
    canvas.dataset.side = side; // the cells end two pixels before the canvas does
    context.scale(ratio, ratio);
    context.font = font;
    context.fillStyle = ink.paper;
    context.fillRect(0, 0, total, total);
    context.fillStyle = ink.frame;
    context.fillRect(edge - 1, edge - 1, n * side + 2, n * side + 2);
    context.imageSmoothingEnabled = false;
    // The corner is rounded to a pixel of the screen, so that no cell is blurred.
    this.area.edge = Math.round(edge * ratio) / ratio;
    context.drawImage(
      pixels(this.matrix, colours),
      this.area.edge,
      this.area.edge,
      n * side,
      n * side,
    );
    this.paintLabels(context, ink);
    if (this.cell && canvas === this.canvas) this.paintCross(context, ink);
  }

  paintLabels(context, ink) {
    const {edge, side} = this.area,
      step = Math.ceil(labelPitch / side);
    const [row, column] = this.cell ?? [];
    context.textBaseline = 'middle';
    this.labels.forEach((label, k) => {
      const middle = edge + (k + 0.5) * side;
      const colour = marked => {
        context.fillStyle = marked ? ink.ink : ink.muted;
      };
      if (k % step !== 0) return;
      colour(k === row);
      context.textAlign = 'right';
      context.fillText(label, edge - labelGap, middle);
      colour(k === column);
      context.save();
      context.translate(middle, edge - labelGap);
      context.rotate(-Math.PI / 2);
      context.textAlign = 'left';
      context.fillText(label, 0, 0);
      context.restore();
    });
  }

  // Lines beside the row and the column, never over a cell's middle.
  paintCross(context, ink) {
    const {edge, side} = this.area,
      [row, column] = this.cell,
      length = this.matrix.n * side;
    context.strokeStyle = ink.ink;
    context.lineWidth = 1;
    context.globalAlpha = 0.45;
    context.strokeRect(edge, edge + row * side, length, side);
    context.strokeRect(edge + column * side, edge, side, length);
    context.globalAlpha = 1;
    context.lineWidth = 2;
    context.strokeRect(edge + column * side, edge + row * side, side, side);
  }

  move(row, column) {
    if (!this.matrix) return;
    const inside = k => Math.max(0, Math.min(this.matrix.n - 1, k));
    this.cell = [inside(row), inside(column)];
    this.draw();
    this.onCell(...this.cell);
  }

  point(event) {
    if (!this.matrix) return;
    const at = this.canvas.getBoundingClientRect(),
      {edge, side} = this.area;
    const column = Math.floor((event.clientX - at.left - edge) / side);
    const row = Math.floor((event.clientY - at.top - edge) / side);
    const {n} = this.matrix;
    if (
      row >= 0 &&
      row < n &&
      column >= 0 &&
      column < n &&
      (row !== this.cell?.[0] || column !== this.cell?.[1])
    )
      this.move(row, column);
  }

  press(event) {
    const [row, column] = this.cell ?? [0, 0],
      last = this.matrix ? this.matrix.n - 1 : 0;
    const moves = {
      ArrowUp: [row - 1, column],
      ArrowDown: [row + 1, column],
      ArrowLeft: [row, column - 1],
      ArrowRight: [row, column + 1],
      Home: [row, 0],
      End: [row, last],
      PageUp: [0, column],
      PageDown: [last, column],
    };
    if (!moves[event.key] || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    this.move(...moves[event.key]);
  }
}
