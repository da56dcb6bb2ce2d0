// SPDX-License-Identifier: Apache-2.0
// Light or dark: as the system prefers, unless the reader chose one with the button.

const system = matchMedia('(prefers-color-scheme: dark)');
const listeners = new Set();

function stored() {
  try {
    return localStorage.getItem('theme');
  } catch {
    return null; // storage is switched off
  }
}

let choice = stored();

export const theme = () =>
  choice === 'light' || choice === 'dark' ? choice : system.matches ? 'dark' : 'light';

// Calls f whenever the theme changes: pictures on a canvas are drawn again.
export const onTheme = f => listeners.add(f);

function apply() {
  document.documentElement.dataset.theme = theme();
  for (const listener of listeners) listener();
}

export function startTheme(button) {
  const label = () =>
    button.setAttribute(
      'aria-label',
      theme() === 'dark' ? 'Switch to light colours' : 'Switch to dark colours',
    );
  button.addEventListener('click', () => {
    choice = theme() === 'dark' ? 'light' : 'dark';
    try {
      localStorage.setItem('theme', choice);
    } catch {
      // The choice then lasts until the page is closed.
    }
    apply();
  });
  system.addEventListener('change', apply);
  listeners.add(label);
  apply();
}
