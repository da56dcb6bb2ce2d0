#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check_prose.sh [FOLDER_OR_FILE...]: fails when a comment or a Markdown page has a phrase that reads as translated.
# CONTRIBUTING.md asks for plain English; this finds only the lapses that occurred before. Checks the list below by default.
set -euo pipefail
cd "$(dirname "$0")/.."

checked=(README.md CONTRIBUTING.md CMakeLists.txt docs hydramix scripts cmake examples fuzz include recipes src tests)
skipped=(scripts/check_prose.sh)  # files and folders

# Extended regular expressions with what to write instead.
phrases=(
  '\b(and|at|before|comes?|first|goes on|just|one|place|places|positions?|stands?|those|what|zeros?) behind\b|after'
  '\bbehind (any|each|every|it|its|them|this|those|the (end|first|last|next|others?|row|text|tokens?))\b|after'
  '\bsigns? of life\b|heartbeat'
  '\bfarewells?\b|leave'
  '\bby an enemy\b|not cryptographic'
  '\bwhosesoever\b|of any'
  '\bwhoever is killed\b|a killed run'
  '\b(take|takes|taken|took) up (again|the work)\b|resume'
  '\bgoes on (after|behind|to|with)\b|continues'
  '\bis done with\.|is finished'
  '\bwhich is not done\b|without running it'
  '\bwhat came of it\b|measured'
  '\bbegins? anew\b|restart'
  '\bmust do at least\b|lower bound'
  '\banswers? for every\b|can be reused for any'
  '\b(is|are|was|were|be) asked (for )?anew\b|is evaluated again'
  '\bhelps nobody\b|is of no use'
  '\bhas nobody to tell\b|cannot report'
  '\bnobody (waits|uses|loads|wants)\b|unused'
  '\bper place\b|per position'
  '\bplace by place\b|position by position'
  '\bwhatever it does\b|always'
  '\bmust go without\b|continue without'
  '\bto be had\b|available'
  '\bfor want of\b|without'
  '\bas (it|they) (lie|lies|stand|stands) (in the file|in the text|on disk)\b|unchanged'
  '\bwhat is there already\b|existing'
  '\b(hold|holds|held) (it|us|the reader|the generator) to (it|that|this)\b|check'
  '\b(one|a|an) (answer|byte|document|entry|executable|line|opcode|page|row|text|token|word) an? (line|row|sequence|folder|file|core|token|document|rank|thread|unit)\b|per'
  '\bleavings\b|leftovers'
  '\blast words\b|last lines'
  '\bhardly ever\b|rarely'
  '\bwholly or not at all\b|atomically'
  '\bwhole or not at all\b|atomically'
  '\banew\b|again'
  '\bwhoever\b|the caller'
  '\bnobody (asked|calls|could|reads|writes)\b|no caller'
  '\b(is|are|was|were|be|as|if) asked for\b|requested'
  '\bonce an? (batch|chunk|file|instruction set|layer|machine|process|rank)\b|per'
  '\b(bits|bytes|column|examples|floats|object|operations|panel|pixel|pixels|rectangle|sequences|thread|tokens) an? (core|device|entry|line|panel|rank|row|second|side|step|token|value)\b|per'
  '\bto the bit\b|bit for bit'
  '\b(whatever|wherever) (it )?stands\b|whatever else is'
  '\b(were|was) had\b|were made'
  '\b(is|are) not there\b|missing'
  '\b(is|are) there already\b|existing'
  '\bgo(es)? without\b|does not use'
  '\brunning sums?\b|prefix sum'
  '\bthrice\b|three times'
  '\b(steps?|graphs?|work) (is|are) recorded\b|captured'
)

# Words that must not occur in any line of the sources, comment or code. A comment names its subject first, so none begins
# with "What".
banned=(
  '\bwhosesoever\b'
  '\bby an enemy\b'
  '\btakes up the work behind\b'
  '\bwhich is not done meanwhile\b'
  '\banswers for every layout\b'
  '\bmust do at least\b'
  '\bof_tokens\(\)'
  '// What [a-z]'
)

# Names that say nothing, or are not the field's: in code, outside of strings and comments, whatever the type.
names=(
  '\b(wholes|quick|looks|never)_?\b'
  '\bk?(Wholes|Quick|Looks)\b'
  '([Cc]omplaint|[Vv]erdict|[Ff]arewell|SignOfLife|sign_of_life)'
  '\b(count|each|expect|for|from|get|make|of|read|to|with|write)_items\b'
  '\b(count|each|expect|for|from|get|k|make|of|read|to|with|write)Items\b'
)

targets=("${checked[@]}")
[ $# -eq 0 ] || targets=("$@")
if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
  list=$(git ls-files --cached --others --exclude-standard -- "${targets[@]}")
else  # a source archive
  list=$(find "${targets[@]}" -type f)
fi
files=() sources=() python=()
while IFS= read -r file; do
  [ -f "$file" ] || continue  # deleted, not yet committed
  case $file in
    src/*.h | src/*.cpp | src/*.cu | src/*.cuh | include/*.h | tests/*.h | tests/*.cpp | tests/*.cu | *.js) sources+=("$file") ;;
    *.py) python+=("$file") ;;
  esac
  for skip in "${skipped[@]}"; do
    case $file in "$skip" | "$skip"/*) continue 2 ;; esac
  done
  case $file in
    *.md | *.h | *.c | *.cpp | *.cu | *.cuh | *.sh | *.py | *.js | *.yaml | *.cmake | */CMakeLists.txt | CMakeLists.txt | hydramix) files+=("$file") ;;
  esac
done <<<"$list"
[ ${#files[@]} -gt 0 ] || { echo "check_prose: no files to check in: ${targets[*]}"; exit 1; }

failures=0
for entry in "${phrases[@]}"; do
  pattern=${entry%|*} instead=${entry##*|}
  # Prose only: lines of Markdown, and the comments of other files.
  found=$(grep -HnEi -- "$pattern" "${files[@]}" | grep -E '^[^:]+\.md:|^[^:]+:[0-9]+:.*(//|#|""")' |
          grep -E -i -- "(\.md:[0-9]+:|//|#|\"\"\").*$pattern" || true)
  [ -n "$found" ] || continue
  echo "write '$instead' instead:"
  echo "  ${found//$'\n'/$'\n'  }"
  failures=1
done
if [ ${#sources[@]} -gt 0 ]; then
  for pattern in "${banned[@]}"; do
    found=$(grep -HnE -- "$pattern" "${sources[@]}" || true)
    [ -n "$found" ] || continue
    echo "rename or rewrite:"
    echo "  ${found//$'\n'/$'\n'  }"
    failures=1
  done
fi
# FILE:LINE:CODE without strings and comments, of which those over several lines are Python's """ only.
code_of() {
  [ $# -gt 0 ] || return 0
  awk '
    FNR == 1 { text = 0 }
    FILENAME ~ /\.py$/ && gsub(/"""/, "&") % 2 { text = !text; next }
    text { next }
    { gsub(/\\./, ""); gsub(/"""[^"]*"""/, ""); gsub(/"[^"]*"/, ""); gsub(/\047[^\047]*\047/, "") }
    FILENAME ~ /\.py$/ { sub(/#.*/, "") }
    FILENAME !~ /\.py$/ { sub(/\/\/.*/, "") }
    { print FILENAME ":" FNR ":" $0 }' "$@"
}
code=$(code_of "${sources[@]}" "${python[@]}")
for pattern in "${names[@]}"; do
  found=$(grep -E -- "^[^:]+:[0-9]+:.*$pattern" <<<"$code" || true)
  [ -n "$found" ] || continue
  echo "rename:"
  echo "  ${found//$'\n'/$'\n'  }"
  failures=1
done
[ $failures -ne 0 ] || echo "check_prose: ${#files[@]} files"
exit $failures
