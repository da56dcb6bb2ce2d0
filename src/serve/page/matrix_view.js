// SPDX-License-Identifier: Apache-2.0
// The matrix explorer: the matrices of one model, or of two side by side, for a typed sentence.
import {latest} from './api.js';
import {byId, element, whenPaused} from './dom.js';
import {MatrixStage} from './matrix_stage.js';
import {fillModels, notice} from './models.js';

// Sentences of the built-in language, which the models of `hydramix demo` know.
const examples = [
  ['a pronoun', 'before [MASK] left , anna was sad .'],
  ['an answer to the right', 'surely the key looks [MASK] . what colour is the key ? black .'],
  [
    'a long text, for the ranks',
    'it rained ( as emma feared ) . nina bought three things : milk , bread and salt . surely ' +
      'the key looks [MASK] . henry bought two things : honey and tea . the goat that julia saw ' +
      'is glad . what colour is the key ? black . before he left , jacob was calm .',
  ],
];

export function matrixView() {
  const field = byId('matrix-text'),
    message = byId('matrix-notice'),
    places = byId('matrix-stages');
  const selects = [byId('matrix-model'), byId('matrix-second')];
  const fail = error => notice(message, error.message, true);
  const stages = [];
  for (const other of [1, 0])
    stages.push(
      new MatrixStage({
        onCell: (row, column) => stages[other].follow(row, column),
        onError: fail,
      }),
    );

  const loadStages = latest(async (signal, models, text) => {
    for (const [k, model] of models.entries())
      if (!signal.aborted) await stages[k].load(model, text);
    return true;
  });

  async function load() {
    const models = selects.map(select => select.value).filter(Boolean),
      text = field.value.trim(),
      lead = byId('matrix-lead');
    loadStages.abort();
    for (const stage of stages) stage.abort();
    lead.classList.toggle('two', models.length > 1);
    lead.classList.toggle('busy', text !== '');
    // Inserting a box again would take the focus from it.
    if (places.children.length !== models.length)
      places.replaceChildren(...stages.slice(0, models.length).map(({box}) => box));
    places.hidden = text === '';
    if (text === '') return notice(message, 'Write a sentence, and its matrices appear here.');
    try {
      if (!(await loadStages(models, text))) return undefined; // a newer call goes on
      const {cell} = stages[0].picture;
      if (models.length > 1 && cell) stages[1].follow(...cell);
      notice(message, null);
    } catch (error) {
      fail(error);
    }
    lead.classList.remove('busy');
    return undefined;
  }

  if (fillModels(selects[0], '/matrix') === 0) {
    notice(message, 'No served model has matrices to show.');
    places.hidden = true;
    return {};
  }
  fillModels(selects[1], '/matrix', 'nothing');
  field.value = examples[0][1];
  const choose = text => {
    field.value = text;
    load();
  };
  byId('matrix-examples').append(
    'Try ',
    ...examples.map(([name, text]) =>
      element('button', {type: 'button', class: 'link', click: () => choose(text)}, name),
    ),
  );
  field.addEventListener('input', whenPaused(load, 350));
  for (const select of selects) select.addEventListener('change', load);
  return {show: () => stages[0].answer ?? load()};
}
