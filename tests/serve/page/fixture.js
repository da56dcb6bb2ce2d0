// SPDX-License-Identifier: Apache-2.0
// Small models, servers of them, and tests in a real browser.
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

// An element that each view has when it is complete.
const shownIn = {
  matrices: '.chips button',
  'fill-mask': '#view-fill-mask .candidate',
  similarity: '#similarity-result .candidate',
  classify: '#view-classify .candidate',
  runs: '#runs-chart polyline',
  server: '#server-tiles dd',
};

// Returns the number of failures.
async function runTests() {
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

// Runs all tests, and sets the exit status.
function main() {
  runTests()
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
}

module.exports = {
  ask,
  at,
  hold,
  main,
  ready,
  run,
  sentence,
  shownIn,
  shownNumber,
  startCommand,
  startServer,
  stopServer,
  test,
};
