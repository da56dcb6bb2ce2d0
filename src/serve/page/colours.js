// SPDX-License-Identifier: Apache-2.0
// The diverging colours of all matrices: blue for negative, neutral for zero, red for positive. On
// light paper they are those of `hydramix matrix` (src/view/colour_map.h): straight segments in
// Oklab, so that equal steps of a value look equal. On dark paper zero is dark and the poles are
// light. Both maps lie inside sRGB.

const blueHue = 258,
  redHue = 25; // degrees
const maps = {
  light: {centre: 0.97, pole: 0.45, chroma: 0.16},
  dark: {centre: 0.22, pole: 0.72, chroma: 0.14},
};

// From Oklab to cone responses, and from these to linear light.
const conesFromLab = [
  [1, 0.3963377774, 0.2158037573],
  [1, -0.1055613458, -0.0638541728],
  [1, -0.0894841775, -1.291485548],
];
const linearFromCones = [
  [4.0767416621, -3.3077115913, 0.2309699292],
  [-1.2684380046, 2.6097574011, -0.3413193965],
  [-0.0041960863, -0.7034186147, 1.707614701],
];

const multiply = (matrix, v) => matrix.map(row => row[0] * v[0] + row[1] * v[1] + row[2] * v[2]);

function byteOf(light) {
  const clamped = Math.min(1, Math.max(0, light));
  const s = clamped <= 0.0031308 ? 12.92 * clamped : 1.055 * clamped ** (1 / 2.4) - 0.055;
  return Math.round(255 * s);
}

// [r, g, b] of t in [-1, 1], clamped beyond; a mid grey where t is not finite.
export function divergingColour(t, theme) {
  if (!Number.isFinite(t)) return [128, 128, 128];
  const map = maps[theme],
    size = Math.min(1, Math.abs(t));
  const hue = ((t < 0 ? blueHue : redHue) * Math.PI) / 180,
    chroma = map.chroma * size;
  const lab = [
    map.centre + (map.pole - map.centre) * size,
    chroma * Math.cos(hue),
    chroma * Math.sin(hue),
  ];
  return multiply(
    linearFromCones,
    multiply(conesFromLab, lab).map(x => x ** 3),
  ).map(byteOf);
}

export const cssColour = ([r, g, b]) => `rgb(${r}, ${g}, ${b})`;

// The lines of charts: distinct without red and green too (after Okabe and Ito), the same as in the
// charts of reports. On dark paper they are lighter.
const lines = {
  light: ['#0072b2', '#d55e00', '#008c66', '#b04f8a', '#a86e00', '#2f8fc4'],
  dark: ['#58b4ee', '#ff9452', '#3fc79b', '#e58ac0', '#e0ab3d', '#8fd0f5'],
};
const dashes = ['none', '7 4', '2 3', '9 3 2 3'];

export function lineStyle(number, theme) {
  const colours = lines[theme];
  return {
    stroke: colours[number % colours.length],
    'stroke-dasharray': dashes[Math.floor(number / colours.length) % dashes.length],
  };
}
