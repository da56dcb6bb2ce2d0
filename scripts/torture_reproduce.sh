#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# torture_reproduce.sh: kills `hydramix reproduce` again and again, at random times and with all its runs or alone, until it has finished.
# Its report must then be that of a call which nobody killed. About ten minutes on two cores.
#
# usage: scripts/torture_reproduce.sh COMMAND [SEED]
set -euo pipefail

command=$1
RANDOM=${2:-1}
folder=$(mktemp -d /tmp/hydramix-torture-reproduce-XXXXXX)
arguments=(reproduce recall --scale tiny)

"$command" "${arguments[@]}" --out "$folder/whole" 2> "$folder/whole.log" > /dev/null

kills=0
while :; do
  setsid "$command" "${arguments[@]}" --out "$folder/killed" 2>> "$folder/killed.log" > /dev/null &
  victim=$!
  sleep $((RANDOM % 20)).$((RANDOM % 10))
  # Alone: its runs get SIGTERM when it dies. With its runs: nobody can write a checkpoint.
  if ((RANDOM % 2)); then
    runs=$(cat "/proc/$victim/task/$victim/children" 2> /dev/null || true)
    kill -9 "$victim" $runs 2> /dev/null || true
  else
    kill -9 "$victim" 2> /dev/null || true
  fi
  if wait "$victim" 2> /dev/null; then break; fi
  kills=$((kills + 1))
  # Past the middle of the time it may finish.
  if ((kills == 25)); then
    while ! "$command" "${arguments[@]}" --out "$folder/killed" 2>> "$folder/killed.log" > /dev/null; do
      tail -n 3 "$folder/killed.log"
      kills=$((kills + 1))
      ((kills < 30)) || { echo "FAILED reproduce: it does not finish; see $folder"; exit 1; }
    done
    break
  fi
done

if ! cmp "$folder/whole/report.csv" "$folder/killed/report.csv"; then
  echo "FAILED reproduce: another result after $kills kills; see $folder"
  exit 1
fi
printf '%-14s %8d kills, then the right result\n' reproduce "$kills"
rm -rf "$folder"
