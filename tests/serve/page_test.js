// SPDX-License-Identifier: Apache-2.0
// The page in a real browser, on a real server with small models:
//   scripts/browser.sh tests/serve/page_test.js COMMAND [PART_OF_A_TEST'S_NAME]
// Compares the page with the command's output and with the routes' answers.
const {main} = require('./page/fixture');

require('./page/whole_page');
require('./page/fill_mask');
require('./page/matrices');
require('./page/similarity_and_classes');
require('./page/runs_and_server');
require('./page/keyboard');

main();
