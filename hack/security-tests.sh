#!/usr/bin/env bash
# Runs the tests of hack/security-tests.txt and prints a table. Fails if a test fails or does not exist.
set -uo pipefail
cd "$(dirname "$0")/.."

failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT
printf '| finding | test | result | seconds |\n| --- | --- | --- | ---: |\n'
while IFS='|' read -r finding package test; do
  finding=${finding% } package=${package// /} test=${test# }
  start=$SECONDS
  case $package in
  sh) bash -c "$test" >"$log" 2>&1 ;;
  ./examples/own-kind) (cd examples/own-kind && go test -count=1 -v -run "$test" .) >"$log" 2>&1 ;;
  *) go test -count=1 -v -timeout 10m -run "$test" "$package" >"$log" 2>&1 ;;
  esac
  result=$([ $? = 0 ] && echo passed || echo FAILED)
  if [ "$package" != sh ] && ! grep -q -e '^ *--- PASS' "$log"; then result=FAILED; fi
  printf '| %s | `%s %s` | %s | %d |\n' "$finding" "$package" "${test//|/\\|}" "$result" $((SECONDS - start))
  if [ $result = FAILED ]; then
    failed=1
    grep -vE '^ *(\{"time"|=== )' "$log" | tail -n 40 >&2
  fi
done < <(grep -v '^#' hack/security-tests.txt)
exit $failed
