// SPDX-License-Identifier: Apache-2.0
// The keyboard alone.
const assert = require('node:assert/strict');
const {ready, shownIn, test} = require('./fixture');

// Presses Tab until an element that matches has the focus.
async function tabTo(page, selector) {
  for (let k = 0; k < 100; ++k) {
    await page.keyboard.press('Tab');
    if (await page.evaluate(s => document.activeElement.matches(s), selector)) return;
  }
  assert.fail(`Tab does not reach ${selector}`);
}

for (const view of Object.keys(shownIn))
  test(`Tab reaches every control of the view ${view}`, async ({page, address}) => {
    await page.goto(`${address}/#${view}`);
    await page.waitForSelector(shownIn[view]);
    // Gives the element with the focus a number; null where it has one, or nothing has the focus.
    const number = k =>
      page.evaluate(k => {
        const at = document.activeElement;
        if (at === document.body || at.hasAttribute('data-tab')) return null;
        at.setAttribute('data-tab', k);
        return k;
      }, k);
    let reached = 0;
    for (;; ++reached) {
      assert.ok(reached < 300, 'Tab does not come round');
      await page.keyboard.press('Tab');
      if ((await number(reached)) === null) break;
    }
    const {controls, missed, others} = await page.evaluate(() => {
      const kinds = 'a[href], button, input, select, textarea, summary, [tabindex]';
      const name = element => element.outerHTML.slice(0, 100);
      const wanted = [...document.querySelectorAll(kinds)].filter(
        element =>
          element.checkVisibility({visibilityProperty: true}) &&
          !element.disabled &&
          // The arrow keys of the picture do what the words below it do, and the skip link leads to
          // the content.
          !element.matches('.chips button, main'),
      );
      const scrolls = element =>
        element.scrollWidth > element.clientWidth || element.scrollHeight > element.clientHeight;
      return {
        controls: wanted.length,
        missed: wanted.filter(element => !element.hasAttribute('data-tab')).map(name),
        others: [...document.querySelectorAll('[data-tab]')]
          .filter(element => !wanted.includes(element) && !scrolls(element))
          .map(name),
      };
    });
    assert.deepEqual(missed, []);
    assert.deepEqual(others, []);
    assert.ok(controls > 9, `${controls} controls`); // those of the bar, and some of the view
  });

test('the keyboard alone reaches every view and every cell', async ({page, address}) => {
  await page.goto(address);
  await ready(page);
  await page.keyboard.press('Tab');
  assert.equal(
    await page.evaluate(() => document.activeElement.textContent),
    'Skip to the content',
  );
  await tabTo(page, '.picture canvas');
  await page.keyboard.press('PageDown');
  await page.keyboard.press('Home');
  await page.keyboard.press('ArrowRight');
  const tokens = await page.locator('.readout .token').allTextContents();
  assert.equal(tokens[0], '[SEP]');
  for (const view of ['fill-mask', 'similarity', 'classify', 'runs', 'server', 'fill-mask']) {
    await tabTo(page, `nav a[href="#${view}"]`);
    await page.keyboard.press('Enter');
    await page.waitForSelector(`#view-${view}:not([hidden])`);
  }
  await page.waitForSelector('.candidate');
  await tabTo(page, '.candidate');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => !document.querySelector('#fill-text').value.includes('[MASK]'));
});

test('the skip link stays in its view, also after a reload', async ({page, address}) => {
  await page.goto(`${address}/#fill-mask`);
  await page.waitForSelector('.candidate');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'content');
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'fill-text');
  await page.reload();
  await page.waitForSelector('#view-fill-mask:not([hidden]) .candidate');
  for (const other of ['content', 'constructor']) {
    await page.goto('about:blank');
    await page.goto(`${address}/#${other}`);
    await page.waitForSelector('#view-matrices:not([hidden]) .chips button');
  }
});
