// SPDX-License-Identifier: Apache-2.0
// Numbers as people read them.

// Three significant digits, with a real minus sign: 0.312, −1.2e-5.
export function threeDigits(value) {
  if (!Number.isFinite(value)) return String(value);
  if (value === 0) return '0';
  const size = Math.abs(value);
  const text =
    size >= 1e-3 && size < 1e5
      ? String(Number(size.toPrecision(3)))
      : size.toExponential(2).replace('e+', 'e');
  return value < 0 ? `\u2212${text}` : text;
}

export const percent = share => `${(100 * share).toFixed(2)} %`;

// 1234567 -> 1.23 M
export function shortCount(value) {
  for (const [size, unit] of [
    [1e9, ' G'],
    [1e6, ' M'],
    [1e3, ' k'],
  ])
    if (Math.abs(value) >= size) return `${Number((value / size).toPrecision(3))}${unit}`;
  return String(Number(value.toPrecision(3)));
}

export function duration(seconds) {
  if (!Number.isFinite(seconds)) return '\u2013';
  if (seconds < 1e-3) return `${Number((seconds * 1e6).toPrecision(3))} \u00b5s`;
  if (seconds < 1) return `${Number((seconds * 1e3).toPrecision(3))} ms`;
  if (seconds < 120) return `${Number(seconds.toPrecision(3))} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`;
}
