// SPDX-License-Identifier: Apache-2.0
// Runs, the server, its key, and hydramix view.
const assert = require('node:assert/strict');
const fs = require('node:fs');
const {ask, at, hold, ready, startCommand, startServer, stopServer, test} = require('./fixture');

test('runs are drawn, and grow while they train', async ({page, address}) => {
  await page.goto(`${address}/#runs`);
  await page.waitForSelector('#runs-chart polyline');
  assert.deepEqual(await page.locator('#runs-table tbody label').allTextContents(), [
    'hydra',
    'mamba',
    'shapes',
    'sst2',
  ]);
  const row = page.locator('#runs-table tr', {hasText: 'mamba'});
  assert.equal(await row.locator('td').first().textContent(), '6');
  fs.appendFileSync(at('runs/mamba/metrics.jsonl'), '{"step":1234,"loss":0.5}\n{"step":12');
  await page.waitForFunction(() =>
    document.querySelector('#runs-table tbody').textContent.includes('1,234'),
  );
  assert.equal(await row.locator('td').nth(1).textContent(), '0.5');
  assert.match(await row.locator('td').nth(2).textContent(), /training/);
  const count = await page.locator('#runs-chart polyline').count();
  await row.locator('input').uncheck();
  assert.equal(await page.locator('#runs-chart polyline').count(), count - 1);
});

test('a run that is read twice at once has its points once', async ({page, address}) => {
  await page.goto(`${address}/#server`);
  await page.waitForSelector('#server-tiles dd');
  const held = await hold(page, '**/metrics?after=*');
  await page.click('nav a[href="#runs"]');
  await held.arrived(1);
  await page.click('nav a[href="#server"]');
  await page.click('nav a[href="#runs"]');
  await held.arrived(2);
  await held.release();
  const curve = page.locator('#runs-chart polyline').first();
  await curve.waitFor();
  const lines = fs.readFileSync(at('runs/hydra/metrics.jsonl'), 'utf8').trim().split('\n');
  const wanted = lines.map(line => JSON.parse(line)).filter(({loss}) => Number.isFinite(loss));
  assert.equal(await page.locator('#runs-metric').inputValue(), 'loss');
  assert.equal((await curve.getAttribute('points')).split(' ').length, wanted.length);
  assert.equal(await page.locator('#runs-table tbody tr').count(), 4);
  assert.equal(await page.locator('#runs-notice').isVisible(), false);
});

test('a line of metrics without a step hides no other', async ({page}) => {
  fs.mkdirSync(at('stepless'));
  fs.writeFileSync(
    at('stepless/metrics.jsonl'),
    '{"step":1,"loss":5}\n{"step":2,"loss":4}\n{"loss":3}\n',
  );
  const served = await startCommand('view', at('stepless'), '--device', 'cpu');
  try {
    await page.goto(`${served.address}/#runs`);
    const curve = page.locator('#runs-chart polyline');
    await curve.waitFor();
    const points = (await curve.getAttribute('points')).split(' ');
    assert.equal(points.length, 2);
    assert.equal(points.join().includes('NaN'), false);
    const cells = await page.locator('#runs-table tbody td').allTextContents();
    assert.deepEqual(cells.slice(0, 2), ['', '4']);
    await page.goto('about:blank');
  } finally {
    await stopServer(served);
  }
});

test('the server view counts what the server answers', async ({page, address}) => {
  await page.goto(`${address}/#server`);
  await page.waitForSelector('#server-tiles dd');
  const count = async () => {
    const row = page.locator('#server-routes tr', {hasText: '/tokenize'});
    return (await row.count()) === 0 ? 0 : Number(await row.locator('td').nth(1).textContent());
  };
  const before = await count();
  for (let k = 0; k < 5; ++k) await ask(address, 'tokenize', {inputs: 'anna'});
  await page.waitForFunction(
    n =>
      Array.from(document.querySelectorAll('#server-routes tr')).some(
        row => row.textContent.startsWith('/tokenize') && row.lastChild.textContent === String(n),
      ),
    before + 5,
  );
  assert.ok((await page.locator('#server-models tbody tr').count()) === 4);
  await page.waitForSelector('#server-batches rect');
});

test(
  'a server with a key asks for it',
  async ({page}) => {
    const guarded = await startServer('--api-key', 'open-sesame');
    try {
      await page.goto(guarded.address);
      for (const key of ['wrong', 'open-sesame']) {
        await page.waitForSelector('#key-dialog[open]');
        await page.fill('#key-text', key);
        await page.keyboard.press('Enter');
      }
      await ready(page);
    } finally {
      await stopServer(guarded);
    }
  },
  {errors: /401/},
);

test('view shows one run and its model, and a run without weights its curves', async ({page}) => {
  const view = folder => startCommand('view', folder, '--device', 'cpu');
  const one = await view(at('runs/mamba'));
  try {
    await page.goto(one.address);
    await ready(page);
    assert.deepEqual(await page.locator('#matrix-model option').allTextContents(), ['mamba']);
    await page.goto(`${one.address}/#runs`);
    await page.waitForSelector('#runs-chart polyline');
    assert.deepEqual(await page.locator('#runs-table tbody label').allTextContents(), ['mamba']);
    await page.goto('about:blank'); // it would ask a server that has ended
  } finally {
    await stopServer(one);
  }
  fs.mkdirSync(at('begun'));
  fs.writeFileSync(at('begun/metrics.jsonl'), '{"step":1,"loss":5}\n{"step":2,"loss":4}\n');
  const begun = await view(at('begun'));
  try {
    await page.goto(`${begun.address}/#runs`);
    await page.waitForSelector('#runs-chart polyline');
    await page.goto('about:blank');
  } finally {
    await stopServer(begun);
  }
});
