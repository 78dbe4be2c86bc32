#!/usr/bin/env bash
# Applies a whole platform, config/samples/staging-*.yaml, in a namespace of its own, waits until all of it is Ready,
# changes a ConfigMap, waits until that has restarted what it should, and takes the namespace away again. When something
# does not get Ready it says what is wrong, and leaves it there to be looked at, until the next run.
#
#   hack/smoke.sh [NAMESPACE]
#
# KUBECTL is the kubectl to use, TIMEOUT how many seconds everything together may take. With PLATFORM=no the samples
# have no EcommercePlatform: its kind, and those that it needs, may be off, and the cluster may have no storage.
set -euo pipefail
cd "$(dirname "$0")/.."
kubectl=${KUBECTL:-kubectl}
namespace=${1:-mainstay-smoke}
limit=${TIMEOUT:-600}
samples=()
for sample in config/samples/staging-*.yaml; do
	if [ "$sample" != config/samples/staging-platform.yaml ] || [ "${PLATFORM:-yes}" != no ]; then
		samples+=("$sample")
	fi
done

# kubectl takes 0s for a single look, and less for a week.
left() { echo "$((SECONDS < limit ? limit - SECONDS : 1))s"; }
within() { "$kubectl" --namespace "$namespace" "$@"; }
fail() {
	for sample in "${samples[@]}"; do
		within describe --filename "$sample" >&2 || true
	done
	within get pods,events --sort-by=.metadata.creationTimestamp >&2 || true
	echo "smoke: $1 after $SECONDS s of $limit; left in namespace $namespace" >&2
	exit 1
}
ready() {
	for sample in "${samples[@]}"; do
		within wait --for=condition=Ready --timeout="$(left)" --filename "$sample" || fail "$sample is not Ready $1"
	done
}

"$kubectl" delete namespace "$namespace" --ignore-not-found --timeout="$(left)"
"$kubectl" create namespace "$namespace"
# The ConfigMap that staging-configmonitor.yaml watches.
within create configmap feature-flags --from-literal=banner=off
for sample in "${samples[@]}"; do
	within apply --filename "$sample"
done
ready "at first"
within patch configmap feature-flags --type=merge --patch='{"data":{"banner":"on"}}'
within wait --for=jsonpath='{.status.lastRestart}' --timeout="$(left)" configmonitor/staging-smoke ||
	fail "nothing has restarted for a changed ConfigMap"
ready "after a change"
for sample in "${samples[@]}"; do
	within get --filename "$sample"
done
"$kubectl" delete namespace "$namespace" --timeout="$(left)"
