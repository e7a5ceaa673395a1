#!/usr/bin/env bash
# Generates client/ from the types of api/v1alpha1: apply configurations, clientset, listers
# and informers. Deletes the old code first, so that no code of removed kinds remains.
set -euo pipefail
cd "$(dirname "$0")/.."

module=$(go list -m)
types=$module/api/v1alpha1
out=client
package=$module/client

rm -rf "$out"/{applyconfiguration,clientset,listers,informers}
hack/tool.sh applyconfiguration-gen \
  --output-dir="$out/applyconfiguration" --output-pkg="$package/applyconfiguration" "$types"
hack/tool.sh client-gen --clientset-name=versioned --input-base="$module" --input=api/v1alpha1 \
  --apply-configuration-package="$package/applyconfiguration" \
  --output-dir="$out/clientset" --output-pkg="$package/clientset"
hack/tool.sh lister-gen \
  --output-dir="$out/listers" --output-pkg="$package/listers" "$types"
hack/tool.sh informer-gen \
  --versioned-clientset-package="$package/clientset/versioned" --listers-package="$package/listers" \
  --output-dir="$out/informers" --output-pkg="$package/informers" "$types"
