#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# serve_check.sh MODEL [SECONDS]: hydramix serve under fire, with real clients.
#
#   1. OpenAI's npm client embeds texts and token ids; promtool accepts /metrics.
#   2. hey sends more than the server can compute for SECONDS (60): only 200 and 429, memory bounded, also across three
#      reloads that succeed; bench-serve then measures that the 99th percentile is bounded; SIGTERM in the middle of load
#      loses no accepted request.
#   3. 10 000 idle connections, which all stay open, and 200 that send a header byte by byte: others are still answered,
#      and memory is bounded.
#
# MODEL is the folder of a pretrained model. The clients are Debian's packages prometheus and hey and npm's openai, put
# into build/serve-check; nothing is installed. HYDRAMIX names the command (build/release/bin/hydramix).
set -euo pipefail
cd "$(dirname "$0")/.."

model=${1:?usage: scripts/serve_check.sh MODEL [SECONDS]}
seconds=${2:-60}
command=${HYDRAMIX:-build/release/bin/hydramix}
tools=build/serve-check
mkdir -p "$tools"
failed=0
pass() { echo "ok    $*"; }
miss() { echo "FAIL  $*"; failed=1; }
check() { if eval "$2"; then pass "$1"; else miss "$1 ($2)"; fi; }

if [ ! -x "$tools/root/usr/bin/promtool" ]; then
  (cd "$tools" && apt-get download prometheus hey >/dev/null && for deb in *.deb; do dpkg -x "$deb" root; done)
fi
[ -d "$tools/node_modules/openai" ] || npm install --silent --prefix "$tools" openai >/dev/null
PATH=$PWD/$tools/root/usr/bin:$PATH

server=0
trap '[ $server = 0 ] || kill -KILL $server 2>/dev/null || :' EXIT
start() {  # flags...: starts the server on a free port; sets server, port, url
  "$command" serve "words=$model" --port 0 "$@" 2>"$tools/log" &
  server=$!
  for _ in $(seq 600); do
    port=$(sed -n 's|^listening on http://127.0.0.1:||p' "$tools/log")
    [ -z "$port" ] || break
    sleep 0.1
  done
  url=http://127.0.0.1:$port
}
stop() { kill -TERM $server; code=0; wait $server || code=$?; server=0; }
memory() { awk '/VmRSS/ { print int($2 / 1024) }' "/proc/$server/status"; }

start
cat >"$tools/client.mjs" <<'JS'
import OpenAI from 'openai';
const client = new OpenAI({baseURL: process.argv[2] + '/v1', apiKey: 'none'});
const texts = await client.embeddings.create({model: 'words', input: ['a dog runs', 'a bird sings']});
const ids = await client.embeddings.create({model: 'words', input: [[5, 6], [7]]});
const floats = await client.embeddings.create({model: 'words', input: 'a dog runs', encoding_format: 'float'});
const models = await client.models.list();
const same = floats.data[0].embedding.every((x, i) => Math.fround(x) === Math.fround(texts.data[0].embedding[i]));
let refused = 0;
try { await client.embeddings.create({model: 'none', input: 'x'}); } catch (error) { refused = error.status; }
const ok = texts.data.length === 2 && ids.data.length === 2 && same && models.data[0].id === 'words' && refused === 404;
console.log(texts.data.length, ids.data.length, same, models.data[0].id, refused);
process.exit(ok ? 0 : 1);
JS
check "the openai client gets vectors of texts and ids, base64 equal to floats, and 404 for another model" \
  'node "$tools/client.mjs" "$url"'
check "promtool accepts /metrics" 'curl -s "$url/metrics" | promtool check metrics'
stop
check "SIGTERM ends it with code 0" '[ $code = 0 ]'

# A small queue, so that more than it holds arrives at once.
places=32
start --no-access-log --max-concurrent-requests $places
curl -s "$url/embed" -d '{"inputs": "warm"}' >/dev/null
before=$(memory)
(for _ in 1 2 3; do sleep $((seconds / 4 + 1)); curl -sf -X POST "$url/reload" >/dev/null || exit 1; done) &
reloader=$!
hey -z "${seconds}s" -c 64 -t 30 -m POST -T application/json \
  -d '{"inputs": "the dog sees a small bird and runs under the tall trees today"}' "$url/embed" >"$tools/hey.txt"
reloads=0
wait $reloader || reloads=$?
after=$(memory)
sed -n '/Requests\/sec/p; /% in/p; /responses$/p' "$tools/hey.txt"
echo "memory $before MiB before, $after MiB after"
check "overload is answered with 200 and 429 only" \
  '[ "$(grep -oE "\[[0-9]+\]	[0-9]+ responses" "$tools/hey.txt" | cut -c2-4 | sort | xargs)" = "200 429" ]'
check "no request was lost across three reloads" '! grep -q "Error distribution" "$tools/hey.txt"'
check "three reloads succeeded: the model has revision 4" \
  '[ $reloads = 0 ] && curl -sf "$url/info" | grep -q "\"revision\":4"'
check "memory is bounded" '[ $after -lt $((before + 300)) ]'

# An answer waits for at most the requests that have a place, so on average for places / rate.
"$command" bench-serve --port "$port" --clients 64 --seconds "$((seconds / 4 + 1))" --json "$tools/overload.json"
value() { sed -n "s/.*\"$1\":\([0-9.e+-]*\).*/\1/p" "$tools/overload.json"; }
check "the 99th percentile of accepted requests is bounded: at most 4 x places / rate + 50 ms" \
  'awk "BEGIN { exit !($(value refused) > 0 && $(value p99_ms) <= 4000 * $places / $(value requests_s) + 50) }"'

# SIGTERM under load: what was accepted is answered, so that the client sees no broken answer, only refused connections.
hey -z 5s -c 16 -t 30 -m POST -d '{"inputs": "a dog"}' "$url/embed" >"$tools/drain.txt" &
client=$!
sleep 2
stop
check "SIGTERM under load ends it with code 0" '[ $code = 0 ]'
wait $client || :
check "no answer was broken off" '! grep -E "EOF|reset" "$tools/drain.txt"'

start --no-access-log --header-seconds 5 --idle-seconds 600
cat >"$tools/hostile.mjs" <<'JS'
import net from 'node:net';
const [port, idle, slow] = process.argv.slice(2).map(Number);
const open = () => new Promise(resolve => {
  const socket = net.connect(port, '127.0.0.1', () => resolve(socket));
  socket.on('error', () => resolve(null));
});
const sockets = [];
for (let i = 0; i < idle; i += 100) sockets.push(...await Promise.all(Array.from({length: 100}, open)));
const slowOnes = await Promise.all(Array.from({length: slow}, open));
let closed = 0;
for (const socket of slowOnes) {
  let text = '';
  socket.on('data', data => { text += data; });
  socket.on('close', () => { if (text.startsWith('HTTP/1.1 408')) ++closed; });
  socket.write('GET /health HTTP/1.1\r\nX: ');
}
const timer = setInterval(() => slowOnes.forEach(socket => socket.write('x')), 500);
let worst = 0, answered = 0;
for (let i = 0; i < 20; ++i) {
  const begin = performance.now();
  const reply = await fetch(`http://127.0.0.1:${port}/embed`, {method: 'POST', body: '{"inputs": "a dog"}'});
  await reply.text();
  if (reply.status === 200) ++answered;
  worst = Math.max(worst, performance.now() - begin);
}
await new Promise(resolve => setTimeout(resolve, 9000));
clearInterval(timer);
const stayed = sockets.filter(socket => socket && !socket.destroyed).length;
console.log(`${stayed} idle connections; ${answered} of 20 requests answered, worst ` +
            `${worst.toFixed(0)} ms; ${closed} of ${slow} slow headers cut with 408`);
process.exit(stayed === idle && answered === 20 && closed === slow ? 0 : 1);
JS
ulimit -n 20000 2>/dev/null || :
curl -s "$url/embed" -d '{"inputs": "warm"}' >/dev/null
before=$(memory)
check "10 000 idle connections and 200 slow headers keep no one else waiting" \
  'node "$tools/hostile.mjs" "$port" 10000 200'
after=$(memory)
echo "memory $before MiB before, $after MiB after"
check "memory is bounded: at most 10 KiB a connection" '[ $after -lt $((before + 100)) ]'
stop
check "SIGTERM ends it with code 0" '[ $code = 0 ]'
exit $failed
