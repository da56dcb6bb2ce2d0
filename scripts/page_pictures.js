// SPDX-License-Identifier: Apache-2.0
// Photographs the page for docs/page.md:
//   ./hydramix demo && ./hydramix serve runs/demo/hydra runs/demo/mamba --runs runs
//   scripts/browser.sh scripts/page_pictures.js http://127.0.0.1:8080 docs
const path = require('node:path');
const {chromium} = require('playwright-core');

const [address, folder] = process.argv.slice(2);
const wide = {viewport: {width: 1280, height: 880}};
const phone = {viewport: {width: 390, height: 844}, deviceScaleFactor: 1.5};

const pictures = [
  {name: 'page_matrices', view: 'matrices', wait: '.chips button', options: wide},
  {
    name: 'page_compared',
    view: 'matrices',
    wait: '.chips button',
    options: {...wide, colorScheme: 'dark'},
    prepare: async page => {
      await page.click('.examples button:has-text("to the right")');
      await page.selectOption('#matrix-second', 'mamba');
      await page.waitForSelector('.stage:nth-child(2) .chips button');
    },
  },
  {
    name: 'page_fill_mask',
    view: 'fill-mask',
    wait: '.candidate',
    options: {viewport: {width: 1280, height: 640}},
    prepare: async page => {
      await page.selectOption('#fill-second', 'mamba');
      await page.waitForSelector('#fill-answers section:nth-child(2)');
    },
  },
  {
    name: 'page_phone',
    view: 'fill-mask',
    wait: '.candidate',
    options: {...phone, colorScheme: 'dark'},
  },
  {name: 'page_runs', view: 'runs', wait: '#runs-chart polyline', options: {...phone}},
];

async function main() {
  const browser = await chromium.launch({
    executablePath: '/usr/bin/chromium',
    args: ['--no-sandbox'],
  });
  for (const {name, view, wait, options, prepare} of pictures) {
    const page = await browser.newPage(options);
    await page.goto(`${address}/#${view}`);
    await page.waitForSelector(wait);
    await prepare?.(page);
    await page.waitForTimeout(400); // the end of a fade
    await page.screenshot({path: path.join(folder, `${name}.png`)});
    await page.close();
  }
  await browser.close();
}

main();
