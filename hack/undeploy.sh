#!/usr/bin/env bash
# Uninstalls Mainstay from the current cluster, in the order of docs/uninstall.md. Applications keep running, and
# CRDs and objects stay. What would go on acting without a manager is named before.
#
# With EVERYTHING=yes it first deletes all objects of our kinds, while managers run to remove what the objects have
# caused, and the CRDs in the end. If an object can't be deleted within five minutes, it stops and uninstalls nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
kubectl=${KUBECTL:-kubectl}
helm=${HELM:-bin/helm}
definitions=$("$kubectl" get customresourcedefinitions --output name)
has() { [[ $definitions == *"/$1.mainstay.dev"* ]]; }

if [ "${EVERYTHING:-}" = yes ]; then
	# Policies first, so that none refuses what follows. Agents before the workloads that they are in.
	for kind in platformpolicies.policy clusterinstrumentations.instrumentation; do
		! has "$kind" || "$kubectl" delete "$kind.mainstay.dev" --all --timeout=5m
	done
	# Platforms and stacks before what they would create again. They delete that themselves, in reverse order, which
	# the garbage collector would not keep to. Databases after the applications that use them.
	for kind in instrumentations.instrumentation ecommerceplatforms.platform appstacks.platform webapps.apps \
		postgresqls.database caches.database appconfigs.config configmonitors.config; do
		case $kind in *.platform) cascade=background ;; *) cascade=foreground ;; esac
		! has "$kind" || "$kubectl" delete "$kind.mainstay.dev" --all --all-namespaces "--cascade=$cascade" --timeout=5m
	done
else
	for kind in clusterinstrumentations.instrumentation instrumentations.instrumentation; do
		if has "$kind" && [ -n "$("$kubectl" get "$kind.mainstay.dev" --all-namespaces --output name)" ]; then
			echo "undeploy: there are ${kind%%.*}: their agents stay in workloads, and nothing removes them until Mainstay is installed again" >&2
		fi
	done
	if has platformpolicies.policy; then
		"$kubectl" get platformpolicies.policy.mainstay.dev --output 'jsonpath={range .items[*]}{.metadata.name} {.spec.workloads}{"\n"}{end}' |
			while read -r policy workloads; do
				[[ ${workloads:-Off} == Off ]] ||
					echo "undeploy: the API server goes on checking plain workloads by policy $policy (spec.workloads: $workloads)" >&2
			done
	fi
fi
"$helm" uninstall mainstay --namespace mainstay-system --ignore-not-found --wait --timeout 6m
if [ "${EVERYTHING:-}" = yes ]; then
	"$kubectl" delete --filename charts/mainstay/crds --ignore-not-found --timeout=5m
fi
