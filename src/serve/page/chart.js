// SPDX-License-Identifier: Apache-2.0
// Lines over linear or logarithmic axes, as SVG. The mouse, a finger and the left and right keys
// move a cursor over the values of x; the values of all lines there are shown below the picture and
// read out.
import {lineStyle} from './colours.js';
import {element, svg} from './dom.js';
import {shortCount, threeDigits} from './numbers.js';
import {onTheme, theme} from './theme.js';

const left = 58,
  right = 12,
  top = 14,
  bottom = 34;

// Round numbers that cut [low, high] into about `count` parts.
function linearTicks(low, high, count) {
  const rough = (high - low) / count,
    power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find(factor => factor * power >= rough);
  const ticks = [];
  for (let k = Math.ceil(low / step); k * step <= high + step * 1e-9; ++k) ticks.push(k * step);
  return ticks;
}

// Powers of ten; where there are fewer than three, also their halves and fifths.
function logTicks(low, high) {
  const powers = [];
  for (let p = Math.floor(Math.log10(low)); p <= Math.ceil(Math.log10(high)); ++p)
    powers.push(10 ** p);
  const inside = ticks => ticks.filter(t => t >= low * 0.999 && t <= high * 1.001);
  const few = inside(powers);
  return few.length >= 3 ? few : inside(powers.flatMap(p => [p, 2 * p, 5 * p]));
}

// Nearest element of a growing array.
function nearest(sorted, x) {
  let low = 0,
    high = sorted.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < x) low = middle + 1;
    else high = middle;
  }
  return low > 0 && x - sorted[low - 1] < sorted[low] - x ? low - 1 : low;
}

export class Chart {
  constructor({label, height = 260, empty = 'Nothing to draw yet.'}) {
    this.height = height;
    this.empty = empty;
    this.lines = [];
    this.cursor = null;
    this.drawing = svg('svg', {
      class: 'chart',
      role: 'application',
      tabindex: '0',
      'aria-label': label,
      'aria-roledescription': 'chart; left and right keys move along it',
      height,
      pointermove: event => this.point(event),
      pointerdown: event => this.point(event),
      pointerleave: () => this.moveTo(null),
      keydown: event => this.press(event),
    });
    this.legend = element('ul', {class: 'legend', role: 'list'});
    this.status = element('p', {class: 'visually-hidden', role: 'status'});
    this.box = element('div', {class: 'chart-box'}, this.drawing, this.legend, this.status);
    onTheme(() => this.draw());
    new ResizeObserver(() => this.draw()).observe(this.box);
    this.show([]);
  }

  // lines: {name, points: [[x, y], ...] by growing x, style?: number, faint?}. Without a cursor the
  // legend has the last value of each line, or the largest (atRest: 'most').
  show(
    lines,
    {xLabel = '', logY = false, fromZero = false, yFormat = threeDigits, atRest = 'last'} = {},
  ) {
    this.options = {xLabel, logY, fromZero, yFormat, atRest};
    this.lines = lines.map((line, number) => ({
      ...line,
      number: line.style ?? number,
      points: line.points.filter(([, y]) => Number.isFinite(y) && (!logY || y > 0)),
    }));
    this.xs = [...new Set(this.lines.flatMap(line => line.points.map(([x]) => x)))].sort(
      (a, b) => a - b,
    );
    this.draw();
  }

  draw() {
    const width = this.box.clientWidth;
    if (width === 0 || !this.options) return;
    this.drawing.setAttribute('width', width);
    this.drawing.setAttribute('viewBox', `0 0 ${width} ${this.height}`);
    this.drawing.replaceChildren();
    const drawn = this.xs.length > 0;
    this.legend.hidden = !drawn;
    if (!drawn) {
      this.drawing.append(
        svg(
          'text',
          {x: width / 2, y: this.height / 2, 'text-anchor': 'middle', class: 'tick'},
          this.empty,
        ),
      );
      return;
    }
    this.place(width);
    this.drawAxes(width);
    for (const line of this.lines) this.drawLine(line);
    this.cursorGroup = svg('g');
    this.drawing.append(this.cursorGroup);
    this.drawLegend();
    this.moveTo(this.cursor === null ? null : Math.min(this.cursor, this.xs.length - 1));
  }

  place(width) {
    const ys = this.lines.flatMap(line => line.points.map(([, y]) => y));
    const {logY, fromZero} = this.options;
    let low = Math.min(
      ...(fromZero ? [0] : []),
      ys.reduce((a, b) => Math.min(a, b)),
    );
    let high = ys.reduce((a, b) => Math.max(a, b));
    if (low === high && fromZero) high += 1;
    if (low === high) [low, high] = logY ? [low / 2, high * 2] : [low - 0.5, high + 0.5];
    if (!logY && !(fromZero && low === 0)) low -= 0.04 * (high - low);
    if (!logY) high += 0.04 * (high - low);
    const first = this.xs[0],
      last = this.xs.at(-1) === first ? first + 1 : this.xs.at(-1);
    const f = logY ? Math.log : y => y;
    const inner = this.height - top - bottom;
    this.x = x => left + ((x - first) / (last - first)) * (width - left - right);
    this.y = y => top + inner * (1 - (f(y) - f(low)) / (f(high) - f(low)));
    this.xTicks = linearTicks(first, last, Math.max(2, Math.min(8, width / 80)));
    this.yTicks = logY ? logTicks(low, high) : linearTicks(low, high, this.height / 50);
  }

  drawAxes(width) {
    const foot = this.height - bottom;
    for (const tick of this.yTicks)
      this.drawing.append(
        svg('line', {
          x1: left,
          x2: width - right,
          y1: this.y(tick),
          y2: this.y(tick),
          class: 'grid',
        }),
        svg(
          'text',
          {x: left - 8, y: this.y(tick) + 4, 'text-anchor': 'end', class: 'tick'},
          this.options.yFormat(tick),
        ),
      );
    for (const tick of this.xTicks)
      this.drawing.append(
        svg(
          'text',
          {x: this.x(tick), y: foot + 16, 'text-anchor': 'middle', class: 'tick'},
          shortCount(tick),
        ),
      );
    this.drawing.append(
      svg('line', {x1: left, x2: width - right, y1: foot, y2: foot, class: 'axis'}),
      svg(
        'text',
        {x: width - right, y: foot + 31, 'text-anchor': 'end', class: 'tick'},
        this.options.xLabel,
      ),
    );
  }

  strokeOf(line) {
    return line.faint ? {class: 'faint'} : lineStyle(line.number, theme());
  }

  drawLine(line) {
    const points = line.points.map(([x, y]) => `${this.x(x).toFixed(1)},${this.y(y).toFixed(1)}`);
    this.drawing.append(
      svg('polyline', {
        points: points.join(' '),
        fill: 'none',
        'stroke-width': '2',
        'stroke-linejoin': 'round',
        ...this.strokeOf(line),
      }),
    );
    if (line.points.length > 40 || line.faint) return;
    const {stroke} = this.strokeOf(line);
    for (const [x, y] of line.points)
      this.drawing.append(svg('circle', {cx: this.x(x), cy: this.y(y), r: 2.6, fill: stroke}));
  }

  drawLegend() {
    this.values = this.lines.map(() => element('b'));
    this.legend.replaceChildren(
      ...this.lines.map((line, k) =>
        element(
          'li',
          {},
          svg(
            'svg',
            {width: 26, height: 10, 'aria-hidden': 'true'},
            svg('line', {
              x1: 1,
              x2: 25,
              y1: 5,
              y2: 5,
              'stroke-width': '3',
              ...this.strokeOf(line),
            }),
          ),
          element('span', {}, line.name),
          this.values[k],
        ),
      ),
    );
  }

  // Puts the cursor on the k-th x; null takes it away.
  moveTo(k) {
    this.cursor = k;
    if (!this.cursorGroup) return;
    this.cursorGroup.replaceChildren();
    const words = [];
    this.lines.forEach((line, number) => {
      const most = (a, b) => (b[1] > a[1] ? b : a);
      const at =
        k !== null
          ? line.points.find(([x]) => x === this.xs[k])
          : this.options.atRest === 'most'
            ? line.points.reduce(most, line.points[0])
            : line.points.at(-1);
      const limit = k === null && this.options.atRest === 'most' ? 'at most ' : '';
      this.values[number].textContent = at ? limit + this.options.yFormat(at[1]) : '';
      if (at) words.push(`${line.name} ${this.options.yFormat(at[1])}`);
      if (at && k !== null && !line.faint)
        this.cursorGroup.append(
          svg('circle', {
            cx: this.x(at[0]),
            cy: this.y(at[1]),
            r: 4.5,
            fill: this.strokeOf(line).stroke,
          }),
        );
    });
    if (k === null) return;
    const x = this.x(this.xs[k]);
    this.cursorGroup.prepend(
      svg('line', {x1: x, x2: x, y1: top, y2: this.height - bottom, class: 'axis'}),
    );
    this.cursorGroup.append(
      svg(
        'text',
        {x: left + 2, y: this.height - 3, class: 'tick strong'},
        `${this.options.xLabel} ${this.xs[k].toLocaleString('en')}`,
      ),
    );
    if (document.activeElement === this.drawing)
      this.status.textContent = `${this.options.xLabel} ${this.xs[k]}: ${words.join(', ')}`;
  }

  point(event) {
    if (!this.xs?.length || !this.x) return;
    const at = event.clientX - this.drawing.getBoundingClientRect().left;
    const places = this.xs.map(x => this.x(x));
    this.moveTo(nearest(places, at));
  }

  press(event) {
    if (!this.xs?.length) return;
    const last = this.xs.length - 1,
      at = this.cursor ?? last + 1;
    const moves = {ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: last};
    if (moves[event.key] === undefined) return;
    event.preventDefault();
    this.moveTo(Math.max(0, Math.min(last, moves[event.key])));
  }
}
