#!/usr/bin/env bash
# Runs govulncheck in the given modules. It fails if the vulnerability database is not reachable; with
# VULN=offline it prints NOT RUN instead.
# Usage: [VULN=offline] hack/vulncheck.sh MODULE...
set -euo pipefail

not_run() {
  if [ "${VULN:-}" = offline ]; then
    echo "govulncheck: NOT RUN (vulnerability database not reachable, VULN=offline)"
    exit 0
  fi
  echo "govulncheck: the vulnerability database vuln.go.dev is not reachable; to skip the check, set VULN=offline" >&2
  exit 1
}

# Check the connection first, because building and starting the tool is slow. Behind a proxy only the tool
# can check it.
if [ -z "${HTTPS_PROXY:-${https_proxy:-}}" ]; then
  timeout 10 bash -c 'exec 3<>/dev/tcp/vuln.go.dev/443' 2>/dev/null || not_run
fi
tool=$PWD/hack/tool.sh
out=$(mktemp)
trap 'rm -f "$out"' EXIT
for module in "$@"; do
  if (cd "$module" && "$tool" govulncheck ./...) >"$out" 2>&1; then
    echo "govulncheck $module: $(tail -n 1 "$out")"
  elif grep -q 'govulncheck: fetching vulnerabilities' "$out"; then
    not_run
  else
    cat "$out"
    exit 1
  fi
done
