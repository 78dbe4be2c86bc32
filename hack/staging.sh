#!/usr/bin/env bash
# Deploys the packaged chart CHART to the staging cluster, and runs the smoke test there.
#
# STAGING_KUBECONFIG is the content of the cluster's kubeconfig. Without it nothing is deployed: with REQUIRED=true,
# as before a release, that is a failure; otherwise it is said, because forks of this project have no such cluster.
# TAG is the commit that the image is made of. If the cluster has a later commit already, nothing is deployed: the
# checks of two commits end in any order. Without TAG it is a release, and is deployed in any case.
set -euo pipefail
cd "$(dirname "$0")/.."
skip() {
	if [ -n "${GITHUB_ACTIONS:-}" ]; then
		echo "::notice title=staging::$1"
	else
		echo "staging: $1"
	fi
	exit 0
}

if [ -z "${STAGING_KUBECONFIG:-}" ]; then
	if [ "${REQUIRED:-}" = true ]; then
		echo "staging: STAGING_KUBECONFIG is empty, and nothing is released that was not on staging: give the environment staging this secret" >&2
		exit 1
	fi
	skip "not deployed: there is no staging cluster, because the environment staging has no secret STAGING_KUBECONFIG"
fi
KUBECONFIG=$(mktemp)
export KUBECONFIG
trap 'rm -f "$KUBECONFIG"' EXIT
printf '%s' "$STAGING_KUBECONFIG" > "$KUBECONFIG"
unset STAGING_KUBECONFIG

if [ -n "${TAG:-}" ]; then
	# The chart's label is the tag of the image.
	deployed=$("${KUBECTL:-kubectl}" --namespace mainstay-system get deployment mainstay-manager --ignore-not-found \
		--output 'jsonpath={.metadata.labels.app\.kubernetes\.io/version}')
	if [ "$deployed" != "$TAG" ] && git cat-file -e "$deployed^{commit}" 2>/dev/null && git merge-base --is-ancestor "$TAG" "$deployed"; then
		skip "not deployed: staging has $deployed already, which is later than $TAG"
	fi
fi
make deploy CHART="$CHART" TAG="${TAG:-}"
make smoke
