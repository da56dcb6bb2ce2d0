// SPDX-License-Identifier: Apache-2.0
// The server's models, and the fields that choose one.
import {get} from './api.js';
import {element} from './dom.js';

let served = null;

// The answer of /info.
export const info = () => served;

// Loads /info; while the server still loads its models, again every second. `onWait` is told so.
export async function loadInfo(onWait) {
  for (;;) {
    served = await get('info');
    if (served.models.length > 0) return;
    const loading = await get('ready').then(
      () => false,
      error => error.message,
    );
    if (!loading) return;
    onWait(loading);
    await new Promise(resolve => setTimeout(resolve, 1000));
  }
}

// The models that answer a route, or one of several.
export const answering = routes =>
  served.models.filter(model => [routes].flat().some(route => model.routes.includes(route)));
export const modelNamed = name => served.models.find(model => model.name === name);

// "hydra (hydra, 2 layers)"
export const summary = model =>
  `${model.mixer}, ${model.layers} ${model.layers === 1 ? 'layer' : 'layers'}`;

// Fills a <select> with the models that answer a route, or one of several; with `none`, an entry
// for no model. Hides a choice that offers nothing.
export function fillModels(select, routes, none) {
  const models = answering(routes);
  const names = models.map(model => element('option', {value: model.name}, model.name));
  select.replaceChildren(...(none ? [element('option', {value: ''}, none)] : []), ...names);
  if (none) select.parentElement.hidden = models.length < 2;
  return models.length;
}

// Shows a message in a view's notice, or hides it.
export function notice(box, message, bad = false) {
  box.hidden = !message;
  box.textContent = message ?? '';
  box.classList.toggle('bad', bad);
}
