// SPDX-License-Identifier: Apache-2.0
// Similarity, and the classes of texts and images.
const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const {at, hold, run, test} = require('./fixture');

test("similarity shows the cosines of the command's vectors", async ({page, address}) => {
  const lines = ['anna was sad .', 'the key looks blue .', 'anna was happy .'];
  fs.writeFileSync(at('lines.txt'), `${lines.join('\n')}\n`);
  const vectors = run('embed', at('lines.txt'), '--model', at('runs/hydra'), '--normalize')
    .trim()
    .split('\n')
    .map(line => JSON.parse(line));
  const cosine = (a, b) => vectors[a].reduce((sum, x, k) => sum + x * vectors[b][k], 0);
  await page.goto(`${address}/#similarity`);
  await page.fill('#similarity-text', lines.join('\n'));
  await page.waitForFunction(
    () => document.querySelectorAll('#similarity-result .candidate').length === 2,
  );
  await page.locator('#similarity-result canvas').focus();
  await page.keyboard.press('PageUp');
  const order = [1, 2].sort((a, b) => cosine(0, b) - cosine(0, a));
  assert.deepEqual(
    await page.locator('#similarity-result .word').allTextContents(),
    order.map(k => lines[k]),
  );
  const shown = (await page.locator('#similarity-result .share').allTextContents()).map(Number);
  order.forEach((k, place) => assert.ok(Math.abs(shown[place] - cosine(0, k)) < 1e-4));
});

test('classify shows the probabilities of the command', async ({page, address}) => {
  const text = 'the poem was good .';
  const {probabilities} = JSON.parse(
    run('predict', at('runs/sst2'), '--text', text, '--to', 'jsonl'),
  );
  await page.goto(`${address}/#classify`);
  await page.fill('#classify-text', text);
  const wanted = Object.entries(probabilities).sort((a, b) => b[1] - a[1]);
  await page.waitForFunction(
    share => document.querySelector('#view-classify .share')?.textContent === share,
    `${(100 * wanted[0][1]).toFixed(2)} %`,
  );
  assert.deepEqual(
    await page.locator('#view-classify .word').allTextContents(),
    wanted.map(([label]) => label),
  );
});

test(
  'classify shows the classes of an image as the command does',
  async ({page, address}) => {
    const folder = path.join(at('shapes/val'), fs.readdirSync(at('shapes/val'))[0]);
    const image = path.join(folder, fs.readdirSync(folder)[0]);
    const {classes} = JSON.parse(run('classify', at('runs/shapes'), image, '--to', 'jsonl'));
    await page.goto(`${address}/#classify`);
    await page.selectOption('#classify-model', 'shapes');
    assert.equal(await page.locator('#classify-text').isVisible(), false);
    await page.setInputFiles('#classify-file', image);
    await page.waitForSelector('#view-classify .share');
    assert.deepEqual(
      await page.locator('#view-classify .word').allTextContents(),
      classes.map(({label}) => label),
    );
    assert.equal(
      await page.locator('#view-classify .share').first().textContent(),
      `${(100 * classes[0].probability).toFixed(2)} %`,
    );
    assert.equal(await page.locator('#classify-preview').isVisible(), true);
    // An image of 32 x 32 pixels is drawn seven times as large, in 240 pixels.
    assert.equal(await page.getAttribute('#classify-preview', 'width'), '224');
    assert.equal(await page.getAttribute('#classify-preview', 'height'), '224');
    await page.setInputFiles('#classify-file', {
      name: 'no.png',
      mimeType: 'image/png',
      buffer: Buffer.from('no image'),
    });
    await page.waitForSelector('#classify-notice.bad');
    assert.match(await page.locator('#classify-notice').textContent(), /image 1/);
  },
  {errors: /422/}, // the browser's own, of the file that is no image
);

test('a text classified late is not shown for a model of images', async ({page, address}) => {
  await page.goto(`${address}/#classify`);
  await page.waitForSelector('#view-classify .candidate');
  const held = await hold(page, '**/predict');
  await page.fill('#classify-text', 'anna');
  await held.arrived(1);
  await page.selectOption('#classify-model', 'shapes');
  await held.release();
  assert.equal(await page.locator('#view-classify .candidate').count(), 0);
  assert.match(await page.locator('#classify-notice').textContent(), /^Choose a JPEG/);
});
