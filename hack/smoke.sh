#!/usr/bin/env bash
# Applies config/samples/staging-*.yaml in a namespace of its own, waits until all of it is Ready, and takes the
# namespace away again. When something does not get Ready it says what is wrong, and leaves it there to be looked at,
# until the next run.
#
#   hack/smoke.sh [NAMESPACE]
#
# KUBECTL is the kubectl to use, TIMEOUT how long each object may take.
set -euo pipefail
cd "$(dirname "$0")/.."
kubectl=${KUBECTL:-kubectl}
namespace=${1:-mainstay-smoke}
timeout=${TIMEOUT:-3m}
samples=()
for file in config/samples/staging-*.yaml; do
	samples+=(-f "$file")
done

"$kubectl" delete namespace "$namespace" --ignore-not-found --timeout="$timeout"
"$kubectl" create namespace "$namespace"
"$kubectl" apply --namespace "$namespace" "${samples[@]}"
if ! "$kubectl" wait --namespace "$namespace" --for=condition=Ready --timeout="$timeout" "${samples[@]}"; then
	"$kubectl" describe --namespace "$namespace" "${samples[@]}"
	"$kubectl" get events --namespace "$namespace" --sort-by=.lastTimestamp
	echo "smoke: not Ready after $timeout; left in namespace $namespace" >&2
	exit 1
fi
"$kubectl" get --namespace "$namespace" "${samples[@]}"
"$kubectl" delete namespace "$namespace" --timeout="$timeout"
