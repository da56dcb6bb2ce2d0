// SPDX-License-Identifier: Apache-2.0
// Fill-mask.
const assert = require('node:assert/strict');
const {at, run, sentence, test} = require('./fixture');

test('fill-mask shows the words and shares of the command', async ({page, address}) => {
  await page.goto(`${address}/#fill-mask`);
  await page.fill('#fill-text', sentence);
  const line = JSON.parse(
    run('fill-mask', '--model', at('runs/hydra'), '--to', 'jsonl', '--top', '8', '--', sentence),
  );
  await page.waitForFunction(n => document.querySelectorAll('.candidate').length === n, 8);
  assert.deepEqual(
    await page.locator('.candidate .word').allTextContents(),
    line.masks[0].map(word => word.token),
  );
  assert.deepEqual(
    await page.locator('.candidate .share').allTextContents(),
    line.masks[0].map(word => `${(100 * word.probability).toFixed(2)} %`),
  );
});

test('a candidate is put in, and taken out again', async ({page, address}) => {
  await page.goto(`${address}/#fill-mask`);
  await page.fill('#fill-text', `[MASK] and ${sentence}`);
  await page.waitForFunction(() => document.querySelectorAll('#fill-answers section').length === 2);
  const second = page.locator('#fill-answers section').nth(1).locator('.candidate').first();
  const word = await second.locator('.word').textContent();
  await second.click();
  const filled = word.startsWith('##')
    ? `[MASK] and before${word.slice(2)} left , anna was sad .`
    : `[MASK] and before ${word} left , anna was sad .`;
  assert.equal(await page.inputValue('#fill-text'), filled);
  await page.click('#fill-undo');
  assert.equal(await page.inputValue('#fill-text'), `[MASK] and ${sentence}`);
  await page.click('#fill-words button:has-text("anna")');
  assert.match(await page.inputValue('#fill-text'), /, \[MASK\] was sad/);
});

test('two models fill the same mask', async ({page, address}) => {
  await page.goto(`${address}/#fill-mask`);
  await page.selectOption('#fill-second', 'mamba');
  await page.waitForFunction(() => document.querySelectorAll('#fill-answers section').length === 2);
  assert.deepEqual(await page.locator('#fill-answers h2').allTextContents(), ['hydra', 'mamba']);
});

test('a word or a candidate is never put into a text that has changed', async ({page, address}) => {
  await page.goto(`${address}/#fill-mask`);
  await page.fill('#fill-text', 'alpha beta gamma');
  await page.waitForSelector('#fill-words button:has-text("alpha")');
  await page.waitForSelector('#fill-notice:not([hidden])');
  // Types and clicks at once, before the page has noticed a pause.
  const clickAfter = (text, selector) =>
    page.evaluate(
      ({text, selector}) => {
        const field = document.querySelector('#fill-text');
        field.value = text;
        field.dispatchEvent(new Event('input'));
        document.querySelector(selector).click();
        return field.value;
      },
      {text, selector},
    );
  assert.equal(
    await clickAfter('XX alpha beta gamma', '#fill-words [aria-label="hide alpha"]'),
    'XX [MASK] beta gamma',
  );
  await page.waitForSelector('.candidate');
  assert.equal(await clickAfter('[MASK] one [MASK]', '.candidate'), '[MASK] one [MASK]');
  await page.waitForFunction(() => document.querySelectorAll('#fill-answers section').length === 2);
});
