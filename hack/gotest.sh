#!/usr/bin/env bash
# Runs go test and repeats failed tests once. The suites test real processes against real deadlines, and a machine
# whose cores are shared misses some of them. A repeated test that passes is not hidden: it is listed in
# out/flaky.txt, which CI prints. More than three failed tests, a data race, a panic or a failure outside of a test
# are never repeated.
# Usage: hack/gotest.sh "PACKAGES" [FLAGS OF GO TEST...], FORMAT=standard-verbose for the output of all tests
set -euo pipefail

packages=${1:?usage: hack/gotest.sh "PACKAGES" [FLAGS...]}
shift
root=$(cd "$(dirname "$0")/.." && pwd)
report=$(mktemp)
trap 'rm -f "$report"' EXIT

code=0
"$root/hack/tool.sh" gotestsum --format="${FORMAT:-standard-quiet}" --hide-summary=skipped \
  --rerun-fails=1 --rerun-fails-max-failures=3 --rerun-fails-run-root-test --rerun-fails-abort-on-data-race \
  --rerun-fails-report="$report" --packages="$packages" -- "$@" || code=$?
# A failure of TestMain is reported without the name of a test. gotestsum repeats no test of it, which passes.
if grep -E '\.: [0-9]+ runs' "$report"; then
  echo "hack/gotest.sh: the packages above failed outside of a test" >&2
  code=1
fi
if [ "$code" = 0 ] && [ -s "$report" ]; then
  mkdir -p "$root/out"
  cat "$report" >>"$root/out/flaky.txt"
fi
exit "$code"
