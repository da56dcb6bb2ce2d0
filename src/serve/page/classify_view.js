// SPDX-License-Identifier: Apache-2.0
// A fine-tuned model's answer for a text, a pair or an image: probabilities of labels, a score, or
// tags.
import {latest, post} from './api.js';
import {byId, element, whenPaused} from './dom.js';
import {fillModels, modelNamed, notice} from './models.js';
import {percent} from './numbers.js';

const example = 'the poem was good , and laura was happy .';

function labels(answer) {
  return element(
    'ol',
    {class: 'candidates'},
    answer.map(({label, score}, k) =>
      element(
        'li',
        {},
        element(
          'div',
          {class: `candidate${k === 0 ? ' best' : ''}`},
          element('span', {class: 'fill', style: {width: `${100 * score}%`}}),
          element('span', {class: 'word'}, label),
          element('span', {class: 'share'}, percent(score)),
        ),
      ),
    ),
  );
}

function tags(answer) {
  return element(
    'p',
    {class: 'tags'},
    answer.map(({word, label, score}) =>
      element(
        'span',
        {
          title: percent(score),
        },
        element('span', {class: 'token'}, word),
        element('span', {class: 'kind'}, label === 'O' ? '' : label),
      ),
    ),
  );
}

const dataUrl = file =>
  new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(new Error(`${file.name} cannot be read.`));
    reader.readAsDataURL(file);
  });

// Draws an image at most 320 pixels wide and 240 high. A small one is enlarged, every pixel to the
// same square.
function preview(canvas, bitmap) {
  const most = Math.min(320 / bitmap.width, 240 / bitmap.height),
    scale = most > 1 ? Math.floor(most) : most;
  canvas.width = Math.max(1, Math.round(bitmap.width * scale));
  canvas.height = Math.max(1, Math.round(bitmap.height * scale));
  const context = canvas.getContext('2d');
  context.imageSmoothingEnabled = scale < 1;
  context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  canvas.hidden = false;
}

export function classifyView() {
  const field = byId('classify-text'),
    second = byId('classify-second');
  const select = byId('classify-model'),
    message = byId('classify-notice'),
    picture = byId('classify-file');
  const ask = latest((signal, inputs) =>
    post('predict', {model: select.value, inputs, truncate: true}, signal),
  );

  // Shows the image and asks for its classes. The server says what is wrong with a bad one.
  const askImage = latest(async (signal, model, file) => {
    const bitmap = await createImageBitmap(file).catch(() => null);
    if (bitmap && !signal.aborted) preview(byId('classify-preview'), bitmap);
    return post('classify', {model, inputs: await dataUrl(file)}, signal);
  });

  async function loadImage() {
    const file = picture.files[0];
    if (!file) return notice(message, 'Choose a JPEG or PNG image.');
    try {
      const answer = await askImage(select.value, file);
      if (!answer) return undefined;
      notice(message, null);
      byId('classify-answer').replaceChildren(labels(answer));
    } catch (error) {
      notice(message, error.message, true);
    }
    return undefined;
  }

  async function load() {
    ask.abort();
    askImage.abort();
    byId('classify-answer').replaceChildren();
    const ofImages = modelNamed(select.value).kind === 'images';
    byId('classify-first').hidden = ofImages;
    byId('classify-picture').hidden = !ofImages;
    byId('classify-preview').hidden = true;
    if (ofImages) {
      byId('classify-pair').hidden = true;
      return loadImage();
    }
    const model = modelNamed(select.value),
      text = field.value.trim(),
      other = second.value.trim();
    byId('classify-pair').hidden = !model.pairs;
    if (text === '' || (model.pairs && other === ''))
      return notice(
        message,
        model.pairs ? 'This model judges pairs: write two texts.' : 'Write a text.',
      );
    try {
      const answer = await ask(model.pairs ? [text, other] : text);
      if (!answer) return undefined;
      notice(message, null);
      const draw =
        model.kind === 'tokens'
          ? tags
          : model.kind === 'score' || model.kind === 'pairs'
            ? ([{score}]) => element('p', {class: 'score'}, score.toFixed(4))
            : labels;
      byId('classify-answer').replaceChildren(draw(answer));
    } catch (error) {
      notice(message, error.message, true);
    }
    return undefined;
  }

  if (fillModels(select, ['/predict', '/classify']) === 0) {
    field.disabled = true;
    select.disabled = true;
    notice(
      message,
      'No served model classifies. hydramix finetune makes one; serve its folder: ' +
        'hydramix serve runs/demo/hydra-SST-2',
    );
    return {};
  }
  field.value = example;
  for (const box of [field, second]) box.addEventListener('input', whenPaused(load, 300));
  picture.addEventListener('change', load);
  select.addEventListener('change', load);
  return {show: load};
}
