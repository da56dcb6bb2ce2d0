#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# launcher_test.sh SOURCE: tests ./hydramix on machines with missing packages, and with a tiny project. Installs
# nothing.
set -uo pipefail
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HYDRAMIX_NO_INSTALL=1
unset HYDRAMIX_PRESET HYDRAMIX_JOBS HYDRAMIX_PYTHON PYTHONPATH MALLOC_TRIM_THRESHOLD_  # the caller's settings must not reach the projects made here
failures=0
expect() { # expect NAME CONDITION...
  local name=$1
  shift
  if "$@"; then echo "ok: $name"; else echo "FAILED: $name"; failures=$((failures + 1)); fi
}
has() { [[ $1 == *"$2"* ]]; }  # has TEXT PART
# shellcheck disable=SC2317  # called through expect
lacks() { ! has "$@"; }

# Simulates a machine without CMake, ninja and apt-get: a PATH of links to a few tools.
mkdir "$work/bin"
for tool in bash env cat uname readlink; do
  ln -s "$(command -v $tool)" "$work/bin/$tool"
done
cp "$source/hydramix" "$source/CMakePresets.json" "$work/"

out=$(PATH=$work/bin "$work/hydramix" info 2>&1)
code=$?
expect 'without apt-get it fails with exit code 1' test $code = 1
expect 'and says that there is no apt-get' has "$out" 'no apt-get to install with: cmake ninja-build g++'

printf '#!/bin/sh\n: >"%s/installed"\n' "$work" >"$work/bin/apt-get"
ln -s bash "$work/bin/c++"
chmod +x "$work/bin/apt-get"
out=$(PATH=$work/bin "$work/hydramix" info 2>&1)
code=$?
expect 'HYDRAMIX_NO_INSTALL=1 fails with exit code 1' test $code = 1
expect 'it calls no apt-get' test ! -e "$work/installed"
expect 'it lists what is missing' has "$out" 'install nothing: cmake ninja-build'
expect 'it does not list what is there' lacks "$out" 'g++'
for system in 'debian 12 libboost1.81-dev' 'debian 13 libboost-dev' 'ubuntu 24.04 libboost-dev'; do
  read -r id version package <<<"$system"
  printf 'ID=%s\nVERSION_ID="%s"\n' "$id" "$version" >"$work/os-release"
  sed "s|/etc/os-release|$work/os-release|g; s|/usr/include/boost|$work/boost|" "$source/hydramix" >"$work/hydramix_elsewhere"
  chmod +x "$work/hydramix_elsewhere"
  out=$(PATH=$work/bin "$work/hydramix_elsewhere" info 2>&1)
  expect "on $id $version it asks for $package" has "$out" " $package"$'\n'
done
expect 'it says how to build by hand' has "$out" 'cmake --preset release'
expect 'nothing was left behind' test ! -e "$work/build"

for preset in nonsense base 'r.lease' '.*'; do
  out=$(HYDRAMIX_PRESET=$preset "$work/hydramix" info 2>&1)
  code=$?
  expect "preset '$preset' fails with exit code 1" test $code = 1
  expect 'and is named' has "$out" "unknown preset '$preset'"
  expect 'with those there are' has "$out" 'has release dev cuda asan tsan'
done

# A tiny project, in a folder with a space in its name.
project="$work/a project"
mkdir "$project" "$work/elsewhere"
cp "$source/hydramix" "$project/"
cat >"$project/CMakePresets.json" <<'JSON'
{
  "version": 6,
  "configurePresets": [
    {
      "name": "base",
      "hidden": true,
      "generator": "Ninja",
      "binaryDir": "${sourceDir}/build/${presetName}"
    },
    {
      "name": "release",
      "inherits": "base"
    }
  ]
}
JSON
cat >"$project/CMakeLists.txt" <<CMAKE
cmake_minimum_required(VERSION 3.25)
project(tiny LANGUAGES CXX)
include("$source/cmake/HydramixCcache.cmake")
add_executable(hydramix_cli main.cpp)
set_target_properties(hydramix_cli PROPERTIES OUTPUT_NAME hydramix RUNTIME_OUTPUT_DIRECTORY \${PROJECT_BINARY_DIR}/bin)
add_custom_target(hydramix_torch COMMAND \${CMAKE_COMMAND} -E touch \${PROJECT_BINARY_DIR}/built_for_python)
enable_testing()
add_executable(tiny_test tiny_test.cpp)
set_target_properties(tiny_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY \${PROJECT_BINARY_DIR}/tests)
add_test(NAME tiny COMMAND tiny_test)
CMAKE
echo 'int main() {}' >"$project/tiny_test.cpp"
# A compiler cache that stores nothing but logs its commands.
mkdir "$work/cache"
printf '#!/bin/sh\necho "$*" >>"%s/cached"\nexec "$@"\n' "$work" >"$work/cache/ccache"
chmod +x "$work/cache/ccache"
export PATH=$work/cache:$PATH
write_source() { # write_source WORD
  cat >"$project/main.cpp" <<CPP
#include <cstdio>
#include <cstdlib>
int main(int count, char** arguments) {
  std::printf("$1");
  for (int i = 1; i < count; ++i) std::printf("[%s]", arguments[i]);
  return count == 3 && arguments[1][0] == 'x' ? std::atoi(arguments[2]) : 0;
}
CPP
}
call() { # call LAUNCHER ARGUMENTS...: sets out, err and code
  out=$("$@" 2>"$work/err")
  code=$?
  err=$(<"$work/err")
}
launcher=$project/hydramix

# The same launcher on a machine that lacks one package.
sed 's|^libpng-dev .*|libpng-dev /nonexistent/png.h|' "$launcher" >"$work/lacking"
write_source first
# shellcheck disable=SC2016  # a dollar sign must arrive as one
call "$launcher" 'two words' "it's" '"' '*' '' '$HOME' '\n'
if has "$err" 'missing, and'; then
  (cd "$project" && cmake --preset release >/dev/null 2>&1)
  # shellcheck disable=SC2016
  call "$launcher" 'two words' "it's" '"' '*' '' '$HOME' '\n'
fi
expect 'the first call says at once what it does and how long that takes' \
  has "${err%%$'\n'*}" 'first build of the command: about '
expect 'the first call builds' has "$err" 'Building CXX object'
expect 'the command alone' test ! -e "$project/build/release/tests/tiny_test"
expect 'through ccache, since there is one' has "$(cat "$work/cached" 2>&1)" 'main.cpp'
expect 'and passes every argument on as it is' test "$code $out" = "0 first[two words][it's][\"][*][][\$HOME][\\n]"
expect 'without progress in its output' lacks "$out" 'Building'

call "$launcher" again
expect 'the second call prints only what the command prints' test "$code $out $err" = '0 first[again] '

call "$launcher" x 3
expect "the command's exit code is passed on" test $code = 3

call "$launcher" test
expect 'test says that it builds the tests' has "${err%%$'\n'*}" 'first build of all tests: about '
expect 'builds them' test -e "$project/build/release/tests/tiny_test"
expect 'and runs them' has "$out" '100% tests passed'
call "$launcher" test -N
expect 'a second time there is nothing to build' test "$code $err" = '0 '
expect 'and its arguments go to ctest' has "$out" 'Total Tests: 1'

# A Python that prints its paths and arguments.
printf '#!/bin/sh\n[ "$1" = -c ] && exit 0\necho "$HYDRAMIX_LIBRARY|$PYTHONPATH|$MALLOC_TRIM_THRESHOLD_|$*"\n' >"$work/python"
chmod +x "$work/python"
HYDRAMIX_PYTHON=$work/python call "$launcher" python script.py 'two words'
expect 'python builds the library for it' test -e "$project/build/release/built_for_python"
expect 'and starts it with the paths of library and package, and the arguments' \
  test "$code $out" = "0 $project/build/release/python|$project/python|536870912|script.py two words"
printf '#!/bin/sh\nexit 1\n' >"$work/python"
HYDRAMIX_PYTHON=$work/python call "$launcher" python
expect 'a Python without PyTorch is an error' test $code = 1
expect 'that names it' has "$err" "$work/python has no PyTorch"

write_source second
call "$launcher"
expect 'a changed source is built again' test "$code $out" = '0 second'

touch "$project/CMakeLists.txt"
call "$launcher"
expect 'a changed CMakeLists.txt is read again' has "$err" 'Re-running CMake'
expect "without CMake's chatter" lacks "$err" '-- '

cp "$work/lacking" "$launcher"
call "$launcher"
expect 'a configured project needs no packages' test "$code $out $err" = '0 second '

echo 'int main() { return nothing_of_this_name; }' >"$project/main.cpp"
call "$launcher"
expect 'a broken source gives exit code 1' test "$code $out" = '1 '
expect "and the compiler's message" has "$err" 'error:'
expect 'in whole' has "$err" 'nothing_of_this_name'
expect 'and names the missing package' has "$err" 'libpng-dev'

write_source third
call "$launcher"
expect 'once mended it works' test "$code $out" = '0 third'

ln -s "$launcher" "$work/elsewhere/link"
out=$(cd "$work/elsewhere" && ./link 'a b' 2>&1)
expect 'a link in another folder works' test "$out" = 'third[a b]'

echo 'message(FATAL_ERROR "this is wrong")' >>"$project/CMakeLists.txt"
call "$launcher"
expect 'a broken CMakeLists.txt gives exit code 1' test "$code $out" = '1 '
expect "and CMake's message" has "$err" 'this is wrong'
expect 'with its chatter' has "$err" '-- Configuring incomplete'

rm -r "$project/build"
call "$launcher"
expect 'without a build folder packages are needed' test "$code" = 1
expect 'and the missing one is listed' has "$err" 'libpng-dev'
expect 'and nothing is left behind' test ! -e "$project/build"

echo "$failures failures"
exit $((failures > 0))
