#!/usr/bin/env bash
# Runs a command and fails if it changed any file that git knows or would take.
# Works in a dirty tree too: it compares before and after.
set -euo pipefail

snapshot() {
  git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
    if [ -f "$file" ]; then sha256sum "$file"; fi # listed, but deleted: not there before or after
  done | sort -k2
}

before=$(snapshot)
"$@"
if ! changed=$(diff <(echo "$before") <(snapshot)); then
  echo "$changed" | awk '/^[<>]/ {print $3}' | sort -u | sed 's/^/out of date: /' >&2
  echo "run \`make generate\` and commit the result" >&2
  exit 1
fi
