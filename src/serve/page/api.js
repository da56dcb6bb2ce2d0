// SPDX-License-Identifier: Apache-2.0
// Calls the server's routes (docs/serving.md). A failure is an Error with the server's own words.

let key = null; // kept in memory only
let askForKey = async () => null;

// Sets what asks the reader for the server's key; it resolves to null when the reader declines.
export const onKeyWanted = f => {
  askForKey = f;
};

async function answerOf(path, options) {
  const headers = key === null ? {} : {Authorization: `Bearer ${key}`};
  let response;
  try {
    response = await fetch(path, {...options, headers});
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Error('The server does not answer. Is it still running?');
  }
  if (response.status === 401) {
    const given = await askForKey(key !== null);
    if (given !== null) {
      key = given;
      return answerOf(path, options);
    }
  }
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(body.error ?? `The server answered ${response.status}.`);
  return body;
}

export const get = (path, signal) => answerOf(path, {signal});

export const post = (path, body, signal) =>
  answerOf(path, {method: 'POST', body: JSON.stringify(body), signal});

// Runs one call at a time: a newer one aborts the older, whose answer is never shown. Resolves to
// undefined for a call that was aborted. abort() of the result aborts the call under way.
export function latest(f) {
  let controller = null;
  const call = async (...parameters) => {
    controller?.abort();
    const own = (controller = new AbortController());
    try {
      const result = await f(own.signal, ...parameters);
      return own.signal.aborted ? undefined : result;
    } catch (error) {
      if (own.signal.aborted) return undefined;
      throw error;
    }
  };
  return Object.assign(call, {abort: () => controller?.abort()});
}

// Calls f every `seconds` while the view is shown and the window is visible.
export function poll(f, seconds) {
  let timer = 0,
    shown = false;
  const tick = async () => {
    clearTimeout(timer);
    if (!shown || document.hidden) return;
    await f();
    clearTimeout(timer);
    if (shown) timer = setTimeout(tick, 1000 * seconds);
  };
  document.addEventListener('visibilitychange', tick);
  return {
    start: () => {
      shown = true;
      return tick();
    },
    stop: () => {
      shown = false;
      clearTimeout(timer);
    },
  };
}
