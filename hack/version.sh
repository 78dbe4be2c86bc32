#!/usr/bin/env bash
# Prints VERSION=..., for the environment of a workflow. Given a tag, as v1.2.3, it is the version of that release.
# Without, it is a version for HEAD that is no release:
#
#   last release 1.2.3         1.2.4-main.45.g0123456789ab
#   last release 1.3.0-rc.1    1.3.0-rc.1.main.45.g0123456789ab
#   none                       0.0.0-main.45.g0123456789ab
#
# It is later than the last release and than the commits before, and earlier than the next release: a manager
# leaves CRDs alone that a later version has written. The number counts commits.
#
#   hack/version.sh [TAG]
set -euo pipefail
if [ -n "${1:-}" ]; then
	[[ $1 =~ ^v((0|[1-9][0-9]*)(\.(0|[1-9][0-9]*)){2}(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?)$ ]] || {
		echo "version: tag \"$1\": must be v and a semantic version, such as v1.2.3 or v1.2.3-rc.1" >&2
		exit 1
	}
	echo "VERSION=${BASH_REMATCH[1]}"
	exit
fi
if [ "$(git rev-parse --is-shallow-repository)" = true ]; then
	echo "version: this clone has no complete history: git fetch --unshallow --tags" >&2
	exit 1
fi
# Of all branches: a release of an older branch may be the last that staging has seen.
last=$(git -c versionsort.suffix=- tag --list 'v*' --sort=version:refname |
	sed -nE 's/^v([0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?)$/\1/p' | tail -n 1)
case $last in
"") next=0.0.0-main ;;
*-*) next=$last.main ;;
*) next=${last%.*}.$((${last##*.} + 1))-main ;;
esac
echo "VERSION=$next.$(git rev-list --count "${last:+v$last..}HEAD").g$(git rev-parse --short=12 HEAD)"
