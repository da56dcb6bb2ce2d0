// SPDX-License-Identifier: Apache-2.0
// Every view: the policy, texts of users, answers that come late, and the width.
const assert = require('node:assert/strict');
const {hold, shownIn, test} = require('./fixture');

test('the page has a strict policy, and says nothing else', async ({address}) => {
  const answer = await fetch(address);
  assert.match(answer.headers.get('content-type'), /^text\/html/);
  const policy = answer.headers.get('content-security-policy');
  assert.match(policy, /default-src 'none'/);
  assert.doesNotMatch(policy, /unsafe/);
  const tag = answer.headers.get('etag');
  const again = await fetch(address, {headers: {'If-None-Match': tag}});
  assert.equal(again.status, 304);
});

test('a token that looks like an element stays text', async ({page, address}) => {
  await page.addInitScript(() => {
    window.alert = () => {
      window.wasCalled = true;
    };
  });
  const hostile = '<script>alert(1)</script> <img src=x onerror=alert(1)> [MASK]';
  await page.goto(address);
  await page.fill('#matrix-text', hostile);
  await page.waitForFunction(() =>
    Array.from(document.querySelectorAll('.chips button')).some(chip =>
      chip.textContent.includes('<'),
    ),
  );
  await page.goto(`${address}/#fill-mask`);
  await page.fill('#fill-text', hostile);
  await page.waitForSelector('.candidate');
  await page.goto(`${address}/#similarity`);
  await page.fill('#similarity-text', `${hostile}\nanna was sad .`);
  await page.waitForSelector('#similarity-result .candidate');
  assert.equal(await page.evaluate(() => window.wasCalled), undefined);
  assert.equal(await page.locator('main script, main img').count(), 0);
});

for (const [view, route, field, text, nothing, words, shown] of [
  ['matrices', 'matrix', '#matrix-text', 'anna', '', /^Write a sentence/, '.stages:not([hidden])'],
  ['fill-mask', 'fill-mask', '#fill-text', 'a [MASK] b', 'a b', /^Nothing is hidden/, '.candidate'],
  ['similarity', 'similarity', '#similarity-text', 'a\nb\nc', 'a', /^Write at least/, '.candidate'],
  ['classify', 'predict', '#classify-text', 'anna', '', /^Write a text/, '.candidate'],
])
  test(`${view} shows no answer for a text that is gone`, async ({page, address}) => {
    await page.goto(`${address}/#${view}`);
    await page.waitForSelector(`#view-${view} ${shown}`);
    const held = await hold(page, `**/${route}`);
    await page.fill(field, text);
    await held.arrived(1);
    await page.fill(field, nothing);
    const notice = page.locator(`#view-${view} .notice`);
    await notice.waitFor();
    await held.release();
    assert.match(await notice.textContent(), words);
    assert.equal(await notice.isVisible(), true);
    assert.equal(await page.locator(`#view-${view} ${shown} >> visible=true`).count(), 0);
    assert.equal(await page.locator('.busy').count(), 0);
  });

for (const [width, colorScheme] of [
  [1280, 'light'],
  [390, 'light'],
  [360, 'dark'],
])
  test(
    `no view scrolls sideways at ${width} pixels, ${colorScheme}`,
    async ({page, address}) => {
      for (const view of Object.keys(shownIn)) {
        await page.goto(`${address}/#${view}`);
        await page.waitForSelector(shownIn[view]);
        const wider = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(wider <= 0, `${view} is ${wider} pixels wider than the window`);
      }
    },
    {viewport: {width, height: 800}, colorScheme},
  );
