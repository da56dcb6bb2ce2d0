// SPDX-License-Identifier: Apache-2.0
// The page in a real browser, on a real server with small models:
//   scripts/browser.sh tests/serve/page_test.js COMMAND [PART_OF_A_TEST'S_NAME]
// Compares the page with the command's output and with the routes' answers.
const assert = require('node:assert/strict');
const {execFileSync, spawn} = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const {chromium} = require('playwright-core');

const [command, some = ''] = process.argv.slice(2);
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'hydramix-page-'));
const at = name => path.join(folder, name);
const environment = {...process.env, OMP_NUM_THREADS: '1'};
const run = (...words) =>
  execFileSync(command, words, {env: environment, stdio: ['ignore', 'pipe', 'pipe']}).toString();

const sentence = 'before [MASK] left , anna was sad .';

// ---- Models: untrained, because only agreement is tested. ----

function makeModels() {
  const pretrain = (name, mixer) =>
    run(
      'pretrain',
      '--device',
      'cpu',
      '--model.vocab',
      '300',
      '--model.layers',
      '2',
      '--model.block.d-model',
      '16',
      '--model.block.headdim',
      '8',
      '--model.block.mixer',
      mixer,
      '--model.block.mixer-options.d-state',
      '4',
      '--data.evaluation-documents',
      '4',
      '--train.steps',
      '6',
      '--train.log-every',
      '1',
      '--train.batch',
      '4',
      '--out',
      at(`runs/${name}`),
    );
  pretrain('hydra', 'hydra');
  pretrain('mamba', 'semiseparable');
  run('make-data', 'glue', '--train', '24', '--dev', '12', '--test', '6', '--out', at('glue'));
  run(
    'finetune',
    '--device',
    'cpu',
    '--recipe',
    'tiny',
    '--epochs',
    '1',
    '--model',
    at('runs/hydra'),
    '--data',
    at('glue'),
    '--task',
    'SST-2',
    '--out',
    at('runs/sst2'),
  );
  run('make-data', 'images', '--train', '20', '--validation', '10', '--out', at('shapes'));
  run(
    'train-images',
    'recipes/images/tiny.yaml',
    '--device',
    'cpu',
    '--data.path',
    at('shapes'),
    '--train.epochs',
    '1',
    '--out',
    at('runs/shapes'),
  );
}

function startServer(...more) {
  const models = ['hydra', 'mamba', 'sst2', 'shapes'].map(name => `${name}=${at(`runs/${name}`)}`);
  const options = ['--port', '0', '--device', 'cpu', '--runs', at('runs'), ...more];
  return startCommand('serve', ...models, ...options);
}

// Waits until the command has printed its address.
function startCommand(...words) {
  const server = spawn(command, words, {env: environment, stdio: ['ignore', 'pipe', 'pipe']});
  return new Promise((resolve, reject) => {
    let said = '';
    const hear = text => {
      said += text;
      const found = said.match(/http:\/\/[^\s/]+:\d+/);
      if (found) resolve({address: found[0], server});
    };
    server.on('exit', code => reject(new Error(`the server ended with ${code}: ${said}`)));
    server.stdout.on('data', hear);
    server.stderr.on('data', hear);
  });
}

async function stopServer({server}) {
  server.removeAllListeners('exit');
  const ended = new Promise(resolve => server.on('exit', resolve));
  server.kill('SIGTERM');
  await ended;
}

// ---- The tests: each gets a fresh page, which must not complain in its console. ----

const tests = [];
const test = (name, f, options = {}) => {
  if (name.includes(some)) tests.push({name, f, options});
};

const ask = async (address, route, body) => {
  const answer = await fetch(`${address}/${route}`, {method: 'POST', body: JSON.stringify(body)});
  assert.equal(answer.status, 200, await answer.clone().text());
  return answer.json();
};
const shownNumber = text => Number(text.replace('\u2212', '-'));
const ready = page => page.waitForSelector('.chips button');

// Holds the requests whose address matches until release() lets them and all later ones go.
async function hold(page, pattern) {
  const held = [];
  let open = false;
  const go = route => route.continue().catch(() => {}); // the page may have aborted it
  await page.route(pattern, route => (open ? go(route) : held.push(route)));
  return {
    async arrived(count) {
      for (const end = Date.now() + 10000; held.length < count; await page.waitForTimeout(20))
        assert.ok(Date.now() < end, `${held.length} requests came, ${count} were expected`);
    },
    async release() {
      open = true;
      await Promise.all(held.map(go));
      await page.waitForTimeout(700); // an answer would be drawn by then
    },
  };
}

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

// An element that each view has when it is complete.
const shownIn = {
  matrices: '.chips button',
  'fill-mask': '#view-fill-mask .candidate',
  similarity: '#similarity-result .candidate',
  classify: '#view-classify .candidate',
  runs: '#runs-chart polyline',
  server: '#server-tiles dd',
};

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

async function main() {
  makeModels();
  const started = await startServer();
  const browser = await chromium.launch({
    executablePath: '/usr/bin/chromium',
    args: ['--no-sandbox'],
  });
  let failures = 0;
  for (const {name, f, options} of tests) {
    const {errors: expected, ...context} = options;
    const page = await browser.newPage({viewport: {width: 1280, height: 900}, ...context});
    page.setDefaultTimeout(30000);
    const errors = [];
    page.on('console', message => {
      if (['error', 'warning'].includes(message.type())) errors.push(message.text());
    });
    page.on('pageerror', error => errors.push(String(error)));
    try {
      await f({page, address: started.address});
      const left = errors.filter(text => !expected?.test(text));
      assert.deepEqual(left, [], 'the console has errors');
      console.log(`ok      ${name}`);
    } catch (error) {
      ++failures;
      console.log(`FAILED  ${name}\n${error.stack}\n${errors.join('\n')}`);
    }
    await page.close();
  }
  await browser.close();
  await stopServer(started);
  return failures;
}

main()
  .then(failures => {
    console.log(
      failures === 0
        ? `${tests.length} tests passed`
        : `${failures} of ${tests.length} tests failed`,
    );
    process.exitCode = failures === 0 ? 0 : 1;
  })
  .catch(error => {
    console.error(error);
    process.exitCode = 1;
  })
  .finally(() => fs.rmSync(folder, {recursive: true, force: true}));
