#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# torture.sh: kills the command, makes its files and its memory fail, damages its files, gives it hostile command lines.
# It must not crash, hang or give a wrong result; what it refuses must succeed when it is run again.
#
# usage: scripts/torture.sh [--quick | --long] [--seed N] [--jobs N] [--only PHASE,PHASE]
#   --quick  a few seconds, as in the tests; default: minutes; --long: hours, 1000 kills, 1000 faults of each kind, 2000 damaged files, 10 000 lines
#   --seed   other random choices; default: 1
#   --jobs   processes at once; default: the number of cores
#   --only   of kills, writes, reads, mappings, allocations, little memory, damage, command lines, reproduce
# The phase reproduce, ten minutes, is part of --long and of --only reproduce.
# Prints a table of counts. The exit code is 1 if anything failed; then the folder with the files is kept.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=${HYDRAMIX_PRESET:-release}
./hydramix --version > /dev/null  # installs what is missing and builds the command
cmake --build --preset "$preset" --target torture hydramix_preload hydramix_cli > build/"$preset"/torture-build.log ||
  { cat build/"$preset"/torture-build.log; exit 1; }
build/"$preset"/tests/torture build/"$preset"/bin/hydramix build/"$preset"/tests/libhydramix_preload.so "$@"
case " $* " in
  *" --long "* | *reproduce*) scripts/torture_reproduce.sh build/"$preset"/bin/hydramix ;;
esac
