#!/usr/bin/env bash
# Fails if client/ is out of date with api/v1alpha1.
set -euo pipefail
cd "$(dirname "$0")/.."
exec hack/verify-clean.sh hack/update-codegen.sh
