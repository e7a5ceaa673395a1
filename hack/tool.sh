#!/usr/bin/env bash
# Runs a tool of hack/tools.txt and builds it on first use. Builds are cached by version outside the
# work tree, so that checkouts share them.
# Usage: hack/tool.sh NAME [ARGS...]
set -euo pipefail

name=${1:?usage: hack/tool.sh NAME [ARGS...]}
shift
read -r package version < <(awk -v n="$name" '$1 == n {print $2, $3}' "$(dirname "$0")/tools.txt") || {
  echo "hack/tool.sh: $name is not in hack/tools.txt" >&2
  exit 1
}
dir=${HOLDFAST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/holdfast}/tools/$name-$version
if [ ! -x "$dir/$name" ]; then
  echo "building $name $version (cached in $dir)" >&2
  mkdir -p "$(dirname "$dir")"
  tmp=$(mktemp -d "$dir.XXXXXX")
  trap 'rm -rf "$tmp"' EXIT
  # Build the tool with the dependencies of its release, independent of the caller's GOFLAGS and workspace.
  GOFLAGS='-trimpath -buildvcs=false' GOWORK=off CGO_ENABLED=0 GOBIN=$tmp go install "$package@$version"
  # If another checkout has built the tool meanwhile, use that build.
  mv -T "$tmp" "$dir" 2>/dev/null || [ -x "$dir/$name" ]
  rm -rf "$tmp"
  trap - EXIT
fi
exec "$dir/$name" "$@"
