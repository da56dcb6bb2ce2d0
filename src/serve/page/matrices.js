// SPDX-License-Identifier: Apache-2.0
// Matrices as /matrix sends them, ready to be drawn: {n, values (n, n) row-major, scale}.

// The magnitude of the end colours, as in `hydramix matrix`: the 99th percentile of |M| off the
// diagonal. With the largest magnitude, a residual on the diagonal or a few spikes would drown
// everything else.
export function colourScale(values, n) {
  if (n === 1) return Math.abs(values[0]);
  const sizes = Array.from(values, Math.abs).filter((_, k) => Math.floor(k / n) !== k % n);
  sizes.sort((a, b) => a - b);
  // A thumbnail's small entries may be rounded to zero: then the largest, wherever it is.
  const usual = sizes[Math.floor(((sizes.length - 1) * 99) / 100)];
  return usual || sizes.at(-1) || values.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
}

// The four pictures of one head. They share the scale of the whole, so that their colours add up.
export function partsOf(answer) {
  const n = answer.tokens.length;
  const whole = Float64Array.from(answer.whole.flat());
  const scale = colourScale(whole, n);
  const diagonal = new Float64Array(n * n);
  answer.diagonal.forEach((value, i) => {
    diagonal[i * n + i] = value;
  });
  return {
    whole: {n, scale, values: whole},
    forward: {n, scale, values: Float64Array.from(answer.forward.flat())},
    backward: {n, scale, values: Float64Array.from(answer.backward.flat())},
    diagonal: {n, scale, values: diagonal},
  };
}

// A thumbnail's bytes are shares of its scale. Its colours are spread as those of a full picture.
export function thumbnailOf({size, scale, data}) {
  const bytes = Int8Array.from(atob(data), letter => letter.charCodeAt(0));
  const values = Float64Array.from(bytes, byte => (byte / 127) * scale);
  return {n: size, scale: colourScale(values, size), values};
}
