#!/usr/bin/env bash
# Runs a command and fails if it changed any file that git does not ignore. Also works in a dirty work tree,
# because it compares the files before and after the command.
set -euo pipefail

snapshot() {
  git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
    if [ -f "$file" ]; then sha256sum "$file"; fi # skip files that are tracked but deleted
  done | sort -k2
}

before=$(snapshot)
"$@"
if ! changed=$(diff <(echo "$before") <(snapshot)); then
  echo "$changed" | awk '/^[<>]/ {print $3}' | sort -u | sed 's/^/out of date: /' >&2
  echo "run \`make generate\` and commit the result" >&2
  exit 1
fi
