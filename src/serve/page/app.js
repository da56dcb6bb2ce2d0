// SPDX-License-Identifier: Apache-2.0
// The page at / of `hydramix serve`: starts the views and shows the one that the address names.
import {onKeyWanted} from './api.js';
import {classifyView} from './classify_view.js';
import {byId} from './dom.js';
import {fillMaskView} from './fill_mask_view.js';
import {matrixView} from './matrix_view.js';
import {loadInfo, notice} from './models.js';
import {runsView} from './runs_view.js';
import {serverView} from './server_view.js';
import {similarityView} from './similarity_view.js';
import {startTheme} from './theme.js';

// Asks for the server's key. `wrong`: one was given, and refused.
function askForKey(wrong) {
  const dialog = byId('key-dialog'),
    field = byId('key-text');
  byId('key-wrong').hidden = !wrong;
  field.value = '';
  dialog.showModal();
  return new Promise(resolve =>
    dialog.addEventListener(
      'close',
      () => {
        resolve(dialog.returnValue === 'ok' ? field.value : null);
      },
      {once: true},
    ),
  );
}

// Several calls may find out at once that a key is needed; the reader is asked once.
let asking = null;
onKeyWanted(
  wrong =>
    (asking ??= askForKey(wrong).finally(() => {
      asking = null;
    })),
);

const makers = {
  matrices: matrixView,
  'fill-mask': fillMaskView,
  similarity: similarityView,
  classify: classifyView,
  runs: runsView,
  server: serverView,
};
const made = {};
let shown = null;

function show() {
  const asked = location.hash.slice(1).split('?')[0];
  const name = Object.hasOwn(makers, asked) ? asked : 'matrices';
  if (name === shown) return;
  made[shown]?.hide?.();
  shown = name;
  for (const other of Object.keys(makers)) byId(`view-${other}`).hidden = other !== name;
  for (const link of document.querySelectorAll('.bar nav a'))
    if (link.hash === `#${name}`) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  const title = document.querySelector(`.bar nav a[href="#${name}"] span`).textContent;
  document.title = `${title} \u2013 HydraMix`;
  made[name] ??= makers[name]();
  made[name].show?.();
}

// The link for keyboards moves the focus only: the address still names the view after a reload.
document.querySelector('.skip').addEventListener('click', event => {
  event.preventDefault();
  byId('content').focus();
});

startTheme(byId('theme'));
try {
  const trouble = byId('trouble');
  await loadInfo(message => notice(trouble, `Not ready yet: ${message}`));
  notice(trouble, null);
  addEventListener('hashchange', show);
  show();
} catch (error) {
  notice(byId('trouble'), error.message, true);
}
