// SPDX-License-Identifier: Apache-2.0
// Cosines of lines of text: a heat map, and the lines nearest to a chosen one.
import {latest, post} from './api.js';
import {byId, element, whenPaused} from './dom.js';
import {MatrixPicture} from './matrix_picture.js';
import {fillModels, info, notice} from './models.js';

const example = [
  'the cat that oscar saw is sad .',
  'the dog that simon saw is sad .',
  'surely the key looks blue .',
  'what colour is the key ? blue .',
  'henry bought two things : honey and tea .',
  'nina bought milk , bread and salt .',
];

export function similarityView() {
  const field = byId('similarity-text'),
    message = byId('similarity-notice');
  const select = byId('similarity-model'),
    result = byId('similarity-result');
  const ask = latest((signal, inputs) =>
    post('similarity', {model: select.value, inputs, truncate: true}, signal),
  );
  let lines = [],
    cosines = [];

  const picture = new MatrixPicture({label: 'Cosines of the lines', onCell: read, largestCell: 76});
  const readout = element('p', {class: 'readout', role: 'status'});
  const range = element('p', {class: 'muted'});
  const heading = element('h2');
  const nearest = element('ol', {class: 'candidates'});
  result.append(
    element('div', {}, picture.box, range),
    element('div', {}, readout, heading, nearest),
  );

  function read(row, column) {
    readout.replaceChildren(
      element('span', {class: 'value'}, cosines[row][column].toFixed(4)),
      element(
        'span',
        {},
        element('span', {class: 'token'}, lines[row]),
        ' and ',
        element('span', {class: 'token'}, lines[column]),
      ),
    );
    heading.replaceChildren('Nearest to line ', String(row + 1));
    const order = lines
      .map((_, k) => k)
      .filter(k => k !== row)
      .sort((a, b) => cosines[row][b] - cosines[row][a]);
    nearest.replaceChildren(
      ...order.map((k, place) =>
        element(
          'li',
          {},
          element(
            'button',
            {
              type: 'button',
              class: `candidate${place === 0 ? ' best' : ''}`,
              click: () => picture.move(k, row),
            },
            element('span', {
              class: 'fill',
              style: {width: `${Math.max(0, 100 * shade(cosines[row][k]))}%`},
            }),
            element('span', {class: 'word'}, lines[k]),
            element('span', {class: 'share'}, cosines[row][k].toFixed(4)),
          ),
        ),
      ),
    );
  }

  // Vectors of one model often lie close together, so the colours run from the lowest cosine to 1.
  let lowest = -1;
  const shade = cosine => (lowest < 1 ? (cosine - lowest) / (1 - lowest) : 0);

  async function load() {
    lines = field.value
      .split('\n')
      .map(line => line.trim())
      .filter(Boolean);
    const most = info().max_client_batch_size;
    ask.abort();
    result.hidden = true;
    if (lines.length < 2) return notice(message, 'Write at least two lines.');
    if (lines.length > most)
      return notice(
        message,
        `These are ${lines.length} lines; the server takes ${most} at once.`,
        true,
      );
    try {
      const answer = await ask(lines);
      if (!answer) return undefined;
      cosines = answer.similarities;
      lowest = Math.min(...cosines.flat());
      result.hidden = false;
      notice(message, null);
      const values = Float64Array.from(cosines.flat(), shade);
      picture.show(
        {n: lines.length, values, scale: 1},
        lines.map((line, k) => `${k + 1} ${line}`),
      );
      range.textContent = `Colours run from ${lowest.toFixed(3)}, the lowest cosine here, to 1.`;
      const [row, column] = picture.cell ?? [0, 1];
      picture.mark(row, column);
      read(row, column);
    } catch (error) {
      notice(message, error.message, true);
    }
    return undefined;
  }

  if (fillModels(select, '/similarity') === 0) {
    notice(message, 'No served model gives vectors.');
    return {};
  }
  field.value = example.join('\n');
  field.addEventListener('input', whenPaused(load, 500));
  select.addEventListener('change', load);
  return {show: load};
}
