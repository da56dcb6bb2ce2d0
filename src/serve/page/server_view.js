// SPDX-License-Identifier: Apache-2.0
// The server itself: queue, batch sizes and latency, every second. /stats counts since the start;
// the differences between two answers are what happened in between.
import {get, poll} from './api.js';
import {Chart} from './chart.js';
import {byId, element, svg} from './dom.js';
import {info, notice} from './models.js';
import {duration, shortCount} from './numbers.js';

const kept = 120,
  window = 10; // answers; the tiles look at the last ten

const difference = (now, before) => now.map((count, k) => count - (before[k] ?? 0));

// The bucket's upper end below which a share of the requests lies, by linear interpolation.
export function quantile(buckets, counts, share) {
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (total === 0) return NaN;
  let before = 0;
  for (let k = 0; k < counts.length; ++k) {
    if (before + counts[k] >= share * total && counts[k] > 0) {
      const low = k === 0 ? 0 : buckets[k - 1],
        high = buckets[k] ?? buckets.at(-1);
      return low + ((high - low) * (share * total - before)) / counts[k];
    }
    before += counts[k];
  }
  return buckets.at(-1);
}

const answered = stats => stats.requests.reduce((sum, {count}) => sum + count, 0);

function bars(width, buckets, counts) {
  const height = 180,
    foot = height - 22;
  const most = Math.max(1, ...counts),
    step = width / counts.length;
  const name = k => (k < buckets.length ? `\u2264 ${buckets[k]}` : `> ${buckets.at(-1)}`);
  return svg(
    'svg',
    {
      class: 'chart',
      viewBox: `0 0 ${width} ${height}`,
      height,
      role: 'img',
      'aria-label': `Batch sizes: ${counts.map((count, k) => `${name(k)}: ${count}`).join(', ')}`,
    },
    counts.flatMap((count, k) => [
      svg(
        'rect',
        {
          x: k * step + 3,
          y: foot - ((foot - 18) * count) / most,
          width: step - 6,
          height: ((foot - 18) * count) / most,
          rx: 2,
        },
        svg('title', {}, `${name(k)}: ${count}`),
      ),
      svg(
        'text',
        {x: (k + 0.5) * step, y: height - 6, 'text-anchor': 'middle'},
        k < buckets.length ? String(buckets[k]) : '+',
      ),
      svg(
        'text',
        {x: (k + 0.5) * step, y: foot - ((foot - 18) * count) / most - 5, 'text-anchor': 'middle'},
        count > 0 ? shortCount(count) : '',
      ),
    ]),
    svg('line', {x1: 0, x2: width, y1: foot, y2: foot, class: 'axis'}),
  );
}

export function serverView() {
  const message = byId('server-notice'),
    history = [];
  const chart = (id, label) => {
    const made = new Chart({label, height: 180, empty: 'Waiting for requests.'});
    byId(id).append(made.box);
    return made;
  };
  const rate = chart('server-rate', 'Requests a second');
  const latency = chart('server-latency', 'Latency');
  const queue = chart('server-queue', 'Queue');

  // The change between two answers.
  function between(now, before) {
    const time = now.uptime_seconds - before.uptime_seconds;
    const counts = difference(now.latency.counts, before.latency.counts);
    const at = share => quantile(now.latency.buckets, counts, share);
    const batches = now.batches.count - before.batches.count;
    return {
      requests: (answered(now) - answered(before)) / time,
      tokens: (now.batches.tokens - before.batches.tokens) / time,
      batch: batches > 0 ? (now.batches.requests - before.batches.requests) / batches : NaN,
      p50: at(0.5),
      p90: at(0.9),
      p99: at(0.99),
    };
  }

  function drawTiles(now) {
    const recent = between(now, history.at(-1 - window) ?? history[0]);
    const tiles = [
      ['waiting', now.queue.requests],
      ['computing', now.running.requests],
      ['requests/s', shortCount(recent.requests)],
      ['tokens/s', shortCount(recent.tokens)],
      ['requests a batch', Number.isFinite(recent.batch) ? recent.batch.toFixed(1) : '\u2013'],
      ['median latency', duration(recent.p50)],
      ['p99 latency', duration(recent.p99)],
      ['connections', now.connections],
      ['memory', `${shortCount(now.memory_bytes)}B`],
      ['running for', duration(now.uptime_seconds)],
    ];
    byId('server-tiles').replaceChildren(
      ...tiles.map(([name, value]) =>
        element('div', {}, element('dt', {}, name), element('dd', {}, String(value))),
      ),
    );
  }

  function drawCharts(now) {
    const steps = history.slice(1).map((stats, k) => ({
      x: Math.round(stats.uptime_seconds - now.uptime_seconds),
      stats,
      ...between(stats, history[k]),
    }));
    const line = (name, f) => ({name, points: steps.map(step => [step.x, f(step)])});
    const axis = {xLabel: 'seconds', fromZero: true};
    rate.show([line('requests/s', step => step.requests)], axis);
    latency.show(
      [
        line('median', step => step.p50),
        line('p90', step => step.p90),
        line('p99', step => step.p99),
      ],
      {...axis, yFormat: y => (y === 0 ? '0' : duration(y))},
    );
    queue.show(
      [
        line('waiting', step => step.stats.queue.requests),
        line('computing', step => step.stats.running.requests),
      ],
      axis,
    );
    const {size_buckets: buckets, size_counts: counts} = now.batches;
    const box = byId('server-batches');
    const width = box.clientWidth;
    if (width > 0) box.replaceChildren(bars(width, buckets, counts)); // 0: another view is shown
  }

  // The files of the page count as one route.
  function routesOf(requests) {
    const routes = new Map();
    for (const {route, status, count} of requests) {
      const name = route === '/' || /\.(css|js|svg)$/.test(route) ? 'the page' : route;
      const key = `${name} ${status}`;
      routes.set(key, {route: name, status, count: count + (routes.get(key)?.count ?? 0)});
    }
    return [...routes.values()].sort((a, b) => (a.route < b.route ? -1 : 1));
  }

  function drawRoutes(now) {
    byId('server-routes').tBodies[0].replaceChildren(
      ...routesOf(now.requests).map(({route, status, count}) =>
        element(
          'tr',
          {},
          element('th', {scope: 'row'}, route),
          element('td', {}, String(status)),
          element('td', {}, count.toLocaleString('en')),
        ),
      ),
    );
  }

  async function load() {
    try {
      const now = await get('stats');
      if (history.length > 0 && now.uptime_seconds < history.at(-1).uptime_seconds)
        history.length = 0;
      history.push(now);
      if (history.length > kept) history.shift();
      notice(message, null);
      if (history.length < 2) return;
      drawTiles(now);
      drawCharts(now);
      drawRoutes(now);
    } catch (error) {
      notice(message, error.message, true);
    }
  }

  const {version, device, models} = info();
  byId('server-intro').textContent = `HydraMix ${version} on ${device}. Every second:`;
  byId('server-models').tBodies[0].replaceChildren(
    ...models.map(model =>
      element(
        'tr',
        {},
        element('th', {scope: 'row'}, model.name),
        element('td', {class: 'word'}, model.kind),
        element('td', {class: 'word'}, model.mixer),
        element('td', {}, String(model.layers)),
        element('td', {}, model.parameters.toLocaleString('en')),
        element('td', {}, model.max_length > 0 ? String(model.max_length) : 'any'),
      ),
    ),
  );
  const polling = poll(load, 1);
  return {show: polling.start, hide: polling.stop};
}
