// SPDX-License-Identifier: Apache-2.0
// A matrix as a file: .npy with the numbers themselves, .png and .svg with labels, on light paper.
import {pixels} from './matrix_picture.js';
import {threeDigits} from './numbers.js';

// NumPy's format, version 1.0: numpy.load() gives (n, n) float64, bit for bit.
export function npyFile({n, values}) {
  const fields = `{'descr': '<f8', 'fortran_order': False, 'shape': (${n}, ${n}), }`;
  const start = 10,
    length = Math.ceil((start + fields.length + 1) / 64) * 64;
  const file = new Uint8Array(length + 8 * values.length);
  const view = new DataView(file.buffer);
  file.set([0x93, ...Array.from('NUMPY', letter => letter.charCodeAt(0)), 1, 0]);
  view.setUint16(8, length - start, true);
  file.set(new TextEncoder().encode(fields.padEnd(length - start - 1) + '\n'), start);
  values.forEach((value, k) => view.setFloat64(length + 8 * k, value, true));
  return file;
}

export function pngFile(picture) {
  const canvas = document.createElement('canvas');
  picture.paint(canvas, 900, 'light', 2);
  picture.draw(); // its cells are again where they are on the screen
  return new Promise(resolve => canvas.toBlob(resolve, 'image/png'));
}

const letters = {'&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;'};

// Characters that XML does not allow become U+FFFD.
export const xmlText = text =>
  text
    .replace(/[&<>"]/g, letter => letters[letter])
    .replace(/[\0-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]/g, '\ufffd');

export function svgFile(matrix, labels, title) {
  const side = 16,
    edge = 110,
    top = 34,
    bottom = 44,
    size = matrix.n * side;
  const text = (x, y, words, more = '') =>
    `<text x="${x}" y="${y}" fill="#1c202a"${more}>${xmlText(words)}</text>\n`;
  const labelled = labels
    .map((label, k) => {
      const middle = edge + (k + 0.5) * side,
        x = middle + 4,
        y = top + edge - 6;
      return (
        text(edge - 6, top + middle + 4, label, ' text-anchor="end"') +
        text(x, y, label, ` transform="rotate(-90 ${x} ${y})"`)
      );
    })
    .join('');
  const width = Math.max(edge + size + 16, 420),
    height = top + edge + size + bottom;
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" ` +
    `viewBox="0 0 ${width} ${height}" font-family="ui-monospace, Menlo, Consolas, monospace" ` +
    `font-size="12">\n<title>${xmlText(title)}</title>\n` +
    `<rect width="${width}" height="${height}" fill="#ffffff"/>\n` +
    text(16, 24, title, ' font-size="15" font-family="sans-serif"') +
    labelled +
    `<image x="${edge}" y="${top + edge}" width="${size}" height="${size}" ` +
    `style="image-rendering:pixelated" href="${pixels(matrix, 'light').toDataURL()}"/>\n` +
    text(edge, height - 16, `scale ${threeDigits(matrix.scale)}, ${matrix.n} x ${matrix.n}`) +
    '</svg>\n'
  );
}
