// SPDX-License-Identifier: Apache-2.0
// Curves of the metrics of runs, several together, growing while they train.
import {get, poll} from './api.js';
import {Chart} from './chart.js';
import {byId, element} from './dom.js';
import {info, notice} from './models.js';
import {duration, threeDigits} from './numbers.js';

const shownAtFirst = 6,
  seconds = 2;

// Means over about a fiftieth of the curve.
function smoothed(points) {
  const half = Math.max(1, Math.round(points.length / 100));
  return points.map(([x], k) => {
    const part = points.slice(Math.max(0, k - half), k + half + 1);
    return [x, part.reduce((sum, [, y]) => sum + y, 0) / part.length];
  });
}

export function runsView() {
  const metric = byId('runs-metric'),
    message = byId('runs-notice'),
    table = byId('runs-table').tBodies[0];
  const log = byId('runs-log'),
    smooth = byId('runs-smooth');
  const chart = new Chart({
    label: 'Curves of the runs',
    height: 340,
    empty: 'Choose a run that has this metric.',
  });
  const runs = new Map(); // name -> {lines, next, chosen, style, live, modified}
  byId('runs-chart').append(chart.box);

  const pointsOf = run =>
    run.lines
      .filter(line => Number.isFinite(line.step) && Number.isFinite(line[metric.value]))
      .map(line => [line.step, line[metric.value]]);

  function drawMetrics() {
    const names = new Set();
    for (const run of runs.values())
      for (const line of run.lines)
        for (const [name, value] of Object.entries(line))
          if (name !== 'step' && Number.isFinite(value)) names.add(name);
    const sorted = [...names].sort();
    if (Array.from(metric.options, option => option.value).join() === sorted.join()) return;
    const wanted = metric.value || 'loss';
    metric.replaceChildren(...sorted.map(name => element('option', {value: name}, name)));
    if (names.has(wanted)) metric.value = wanted;
  }

  function rowOf(name, run) {
    run.box = element('input', {
      type: 'checkbox',
      change: async () => {
        run.chosen = run.box.checked;
        if (run.chosen) await read(name, run);
        draw();
      },
    });
    run.box.checked = run.chosen;
    run.cells = [element('td'), element('td'), element('td')];
    return element(
      'tr',
      {},
      element('th', {scope: 'row'}, element('label', {}, run.box, name)),
      run.cells,
    );
  }

  function draw() {
    drawMetrics();
    byId('runs-value').textContent = metric.value || 'Value';
    for (const run of runs.values()) {
      const last = pointsOf(run).at(-1);
      const [step, value, changed] = run.cells;
      step.textContent = run.lines.at(-1)?.step?.toLocaleString('en') ?? '';
      value.textContent = last ? threeDigits(last[1]) : '';
      changed.replaceChildren(
        ...(run.live
          ? [element('span', {class: 'live'}), 'training']
          : [`${duration(Math.max(0, Date.now() / 1000 - run.modified))} ago`]),
      );
    }
    const curves = [...runs]
      .filter(([, run]) => run.chosen)
      .map(([name, run]) => ({
        name,
        style: run.style,
        points: smooth.checked ? smoothed(pointsOf(run)) : pointsOf(run),
      }))
      .filter(curve => curve.points.length > 0);
    chart.show(curves, {xLabel: 'step', logY: log.checked});
  }

  // Reads the lines that a run has gained. After a switch to another view and back, two reads may
  // be under way at once: only the first answer is used.
  async function read(name, run) {
    for (let before = -1; before !== run.next && run.next < run.bytes;) {
      before = run.next;
      const answer = await get(`runs/${encodeURIComponent(name)}/metrics?after=${run.next}`);
      if (run.next !== before) return;
      run.lines.push(...answer.lines);
      run.next = answer.next;
    }
  }

  async function load() {
    try {
      const listed = (await get('runs')).runs;
      const fresh = listed.filter(({name}) => !runs.has(name));
      for (const {name} of fresh)
        runs.set(name, {
          lines: [],
          next: 0,
          bytes: 0,
          style: runs.size,
          chosen: runs.size < shownAtFirst,
        });
      table.append(...fresh.map(({name}) => rowOf(name, runs.get(name))));
      for (const {name, bytes, modified} of listed) {
        const run = runs.get(name);
        if (bytes < run.next) Object.assign(run, {lines: [], next: 0}); // it was started again
        run.live = (run.bytes > 0 && bytes > run.bytes) || Date.now() / 1000 - modified < 10;
        Object.assign(run, {bytes, modified});
      }
      for (const {name} of listed)
        if (runs.get(name).chosen) await read(name, runs.get(name));
      byId('runs-result').hidden = runs.size === 0;
      notice(message, runs.size === 0 ? 'There is no run yet: hydramix pretrain makes one.' : null);
      if (runs.size > 0) draw();
    } catch (error) {
      notice(message, error.message, true);
    }
  }

  if (!info().runs) {
    notice(
      message,
      'This server was started without runs to show. Start it with a folder of runs: --runs runs',
    );
    return {};
  }
  for (const control of [metric, log, smooth]) control.addEventListener('change', draw);
  const polling = poll(load, seconds);
  return {show: polling.start, hide: polling.stop};
}
