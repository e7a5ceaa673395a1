#!/usr/bin/env bash
# Fails if the test coverage of a package is below its minimum in hack/coverage.txt.
set -euo pipefail
cd "$(dirname "$0")/.."

required=$(grep -v '^#' hack/coverage.txt)
packages=$(awk '{print "./" $1}' <<<"$required")
# shellcheck disable=SC2086 # one word per package
output=$(go test -vet=off -short -cover $packages) || {
  printf '%s\n' "$output"
  exit 1
}
failed=0
while read -r package want; do
  got=$(grep -E "/$package[[:space:]]" <<<"$output" | grep -oE 'coverage: [0-9.]+' | grep -oE '[0-9.]+')
  if awk -v got="$got" -v want="$want" 'BEGIN {exit !(got + 0 < want + 0)}'; then
    printf '%-22s %5s %% of statements covered, minimum is %s: add tests\n' "$package" "$got" "$want"
    failed=1
  else
    printf '%-22s %5s %% (at least %s)\n' "$package" "$got" "$want"
  fi
done <<<"$required"
exit $failed
