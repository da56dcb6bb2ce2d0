// SPDX-License-Identifier: Apache-2.0
// The matrix explorer.
const assert = require('node:assert/strict');
const fs = require('node:fs');
const {ask, at, hold, ready, run, sentence, shownNumber, test} = require('./fixture');

test('every cell has the value of /matrix and the colour of the command', async ({
  page,
  address,
}) => {
  await page.goto(address);
  await page.fill('#matrix-text', sentence);
  await ready(page);
  await page.click('button[aria-label="layer 2, head 3"]');
  await page.waitForFunction(() =>
    document.querySelector('.stage .muted').textContent.includes('layer 2, head 3'),
  );
  const answer = await ask(address, 'matrix', {
    model: 'hydra',
    inputs: sentence,
    layer: 2,
    head: 3,
  });
  run(
    'matrix',
    '--model',
    at('runs/hydra'),
    '--text',
    sentence,
    '--layer',
    '2',
    '--head',
    '3',
    '--out',
    at('m.png'),
  );
  const n = answer.tokens.length;
  const colours = await page.evaluate(
    async ({data, n}) => {
      const image = new Image();
      image.src = data;
      await image.decode();
      const drawn = document.createElement('canvas');
      [drawn.width, drawn.height] = [image.width, image.height];
      const context = drawn.getContext('2d');
      context.drawImage(image, 0, 0);
      const canvas = document.querySelector('.picture canvas');
      const side = Number(canvas.dataset.side),
        edge = canvas.width - 2 - n * side;
      const pixel = ({data, width}, x, y) => {
        const at = 4 * (Math.floor(y) * width + Math.floor(x));
        return [...data.subarray(at, at + 3)];
      };
      const wanted = context.getImageData(0, 0, image.width, image.height);
      const shown = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
      const bytes = [];
      for (let i = 0; i < n; ++i)
        for (let j = 0; j < n; ++j)
          bytes.push([
            pixel(wanted, ((j + 0.5) * image.width) / n, ((i + 0.5) * image.height) / n),
            pixel(shown, edge + (j + 0.5) * side, edge + (i + 0.5) * side),
          ]);
      return bytes;
    },
    {data: `data:image/png;base64,${fs.readFileSync(at('m.png')).toString('base64')}`, n},
  );
  for (const [wanted, shown] of colours)
    for (const channel of [0, 1, 2])
      assert.ok(
        Math.abs(wanted[channel] - shown[channel]) <= 1,
        `colour ${shown}, expected ${wanted}`,
      );
  const box = await page.locator('.picture canvas').boundingBox();
  const side = Number(await page.getAttribute('.picture canvas', 'data-side'));
  for (const [i, j] of [
    [0, 0],
    [2, 5],
    [n - 1, 1],
    [4, n - 1],
  ]) {
    const end = box.x + box.width - 2,
      foot = box.y + box.height - 2;
    await page.mouse.move(end - (n - j - 0.5) * side, foot - (n - i - 0.5) * side);
    const value = page.locator('.readout .value');
    assert.equal(Number(await value.getAttribute('title')), answer.whole[i][j]);
    assert.ok(
      Math.abs(shownNumber(await value.textContent()) - answer.whole[i][j]) <=
        5e-3 * Math.abs(answer.whole[i][j]),
    );
    assert.deepEqual(await page.locator('.readout .token').allTextContents(), [
      answer.tokens[i],
      answer.tokens[j],
    ]);
  }
});

test('the parts of a matrix add up to the whole', async ({page, address}) => {
  await page.goto(address);
  await ready(page);
  await page.click('.stage summary');
  const table = async part => {
    await page.click(`.parts button:has-text("${part}")`);
    const cells = await page.locator('.numbers tbody td').allTextContents();
    return cells.map(shownNumber);
  };
  const whole = await table('whole');
  const parts = [await table('forward'), await table('backward'), await table('diagonal')];
  assert.ok(whole.length > 16);
  whole.forEach((value, k) => assert.equal(parts[0][k] + parts[1][k] + parts[2][k], value));
});

test('the ranks that are drawn are those of /matrix', async ({page, address}) => {
  await page.goto(address);
  await page.fill('#matrix-text', sentence);
  const {ranks, tokens} = await ask(address, 'matrix', {
    model: 'hydra',
    inputs: sentence,
    layer: 2,
    head: 3,
  });
  await page.waitForFunction(
    n => document.querySelectorAll('.stage .chips button').length === n,
    tokens.length,
  );
  await page.click('button[aria-label="layer 2, head 3"]');
  await page.waitForFunction(() =>
    document.querySelector('.stage .muted').textContent.includes('layer 2, head 3'),
  );
  const chart = page.locator('svg[aria-label="Ranks of the blocks off the diagonal"]');
  // Each line's points in the units of the axes, by the first and the last number of each axis.
  const drawn = await chart.evaluate(svg => {
    const axis = (anchor, name) => {
      const ticks = [...svg.querySelectorAll(`text.tick[text-anchor="${anchor}"]`)]
        .filter(text => text.textContent !== '' && Number.isFinite(Number(text.textContent)))
        .map(text => [Number(text.getAttribute(name)), Number(text.textContent)]);
      const [from, to] = [ticks[0], ticks.at(-1)];
      return at => from[1] + ((at - from[0]) * (to[1] - from[1])) / (to[0] - from[0]);
    };
    const x = axis('middle', 'x'),
      y = axis('end', 'y');
    return [...svg.querySelectorAll('polyline')].map(line =>
      line
        .getAttribute('points')
        .split(' ')
        .map(point => point.split(',').map(Number))
        .map(([px, py]) => [x(px), y(py + 4)]), // the number stands 4 below its line
    );
  });
  assert.ok(ranks.below.length > 5);
  ['below', 'above'].forEach((side, line) => {
    assert.equal(drawn[line].length, ranks[side].length);
    drawn[line].forEach(([place, rank], k) => {
      assert.ok(Math.abs(place - (k + 1)) < 0.05, `${side}: ${place} for ${k + 1}`);
      assert.ok(Math.abs(rank - ranks[side][k]) < 0.05, `${side}: ${rank} for ${ranks[side][k]}`);
    });
  });
  await page.mouse.move(0, 0); // a chart that scrolls below the pointer follows it
  await chart.focus();
  await page.keyboard.press('Home');
  for (let k = 0; k < ranks.below.length; ++k) {
    await page.waitForFunction(
      ([below, above]) => {
        const shown = [...document.querySelectorAll('.stage .legend b')].map(b => b.textContent);
        return Number(shown[0]) === below && Number(shown[1]) === above;
      },
      [ranks.below[k], ranks.above[k]],
    );
    await page.keyboard.press('ArrowRight');
  }
});

test('downloads are the matrix, the picture and a drawing', async ({page, address}) => {
  await page.goto(address);
  await ready(page);
  const file = async kind => {
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.click(`.downloads button:has-text("${kind}")`),
    ]);
    await download.saveAs(at(download.suggestedFilename()));
    return {
      name: download.suggestedFilename(),
      bytes: fs.readFileSync(at(download.suggestedFilename())),
    };
  };
  const npy = await file('NPY');
  const [, layer, head] = npy.name.match(/^hydra-layer(\d+)-head(\d+)\.npy$/);
  run(
    'matrix',
    '--model',
    at('runs/hydra'),
    '--text',
    await page.inputValue('#matrix-text'),
    '--layer',
    layer,
    '--head',
    head,
    '--out',
    at('wanted.npy'),
  );
  const wanted = fs.readFileSync(at('wanted.npy'));
  const numbers = bytes => bytes.subarray(10 + bytes.readUInt16LE(8));
  assert.ok(
    numbers(npy.bytes).equals(numbers(wanted)),
    'the numbers differ from those of the command',
  );
  assert.equal((await file('PNG')).bytes.subarray(1, 4).toString(), 'PNG');
  assert.match((await file('SVG')).bytes.toString(), /^<svg [^]*\[MASK\][^]*<image [^]*<\/svg>\n$/);
});

test('two models stand side by side, and one cross serves both', async ({page, address}) => {
  await page.goto(address);
  await ready(page);
  await page.selectOption('#matrix-second', 'mamba');
  await page.waitForFunction(
    () =>
      document.querySelectorAll('.stage .chips').length === 2 &&
      document.querySelectorAll('.stage')[1].querySelector('.value').textContent !== '',
  );
  await page.locator('.picture canvas').first().focus();
  await page.keyboard.press('PageUp');
  await page.keyboard.press('End');
  const words = await page.locator('.readout').allTextContents();
  for (const text of words) assert.match(text, /row \[CLS\] reads column \[SEP\]/);
  assert.match(words[1], /^0row/); // Mamba does not read what follows
});

test('of two models, both show the newest text', async ({page, address}) => {
  await page.goto(address);
  await ready(page);
  await page.selectOption('#matrix-second', 'mamba');
  await page.waitForFunction(() => document.querySelectorAll('.stage .chips button').length > 15);
  const asked = [];
  page.on('request', request => {
    if (request.url().endsWith('/matrix')) asked.push(request.postDataJSON());
  });
  const held = await hold(page, '**/matrix');
  await page.fill('#matrix-text', 'the first text');
  await held.arrived(1);
  await page.fill('#matrix-text', 'second');
  await held.arrived(2);
  assert.equal(await page.locator('.busy').count(), 1);
  await held.release();
  await page.waitForFunction(() => !document.querySelector('.busy'));
  const old = asked.filter(({inputs}) => inputs === 'the first text');
  assert.deepEqual(old, [{model: 'hydra', inputs: 'the first text'}]);
  const chips = await page.locator('.stage .chips').allTextContents();
  assert.equal(chips.length, 2);
  assert.equal(chips[0], chips[1]);
});

test('a picture has the colours that were chosen in another view', async ({page, address}) => {
  await page.goto(address);
  await ready(page);
  await page.goto(`${address}/#fill-mask`);
  await page.waitForSelector('.candidate');
  await page.click('#theme');
  await page.goto(`${address}/#matrices`);
  await page.waitForFunction(() => {
    const copy = document.createElement('canvas').getContext('2d');
    copy.drawImage(document.querySelector('.picture canvas'), 0, 0);
    const [red, green, blue] = copy.getImageData(2, 2, 1, 1).data;
    return `rgb(${red}, ${green}, ${blue})` === getComputedStyle(document.body).backgroundColor;
  });
});

test('a matrix that is loaded again keeps the focus', async ({page, address}) => {
  await page.goto(address);
  await page.waitForSelector('.stage .chips button');
  await page.locator('.picture canvas').first().focus();
  await Promise.all([
    page.waitForResponse(/\/matrix$/),
    page.evaluate(() => document.querySelector('#matrix-text').dispatchEvent(new Event('input'))),
  ]);
  assert.equal(await page.evaluate(() => document.activeElement.tagName), 'CANVAS');
});
