#!/usr/bin/env bash
# Fails if client/ is not what hack/update-codegen.sh makes of api/v1alpha1.
set -euo pipefail
cd "$(dirname "$0")/.."
exec hack/verify-clean.sh hack/update-codegen.sh
