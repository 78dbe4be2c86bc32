#!/usr/bin/env bash
# Fails if `make gen` would change something, and says what. It runs in a copy of the tree: other tests read the generated files meanwhile.
set -euo pipefail
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git ls-files -z --cached --others --exclude-standard --deduplicate | while IFS= read -r -d '' file; do
	[ ! -e "$file" ] || printf '%s\0' "$file" # a file that is deleted, and not committed so
done | xargs -0 cp --parents --target-directory="$copy"
cd "$copy"
# In a hook of git, its variables name the developer's own repository.
# shellcheck disable=SC2046 # one name a word
unset $(git rev-parse --local-env-vars)
git init --quiet
git add --all
make --silent gen
# What was there before is staged; whatever differs from that, or is new, is a change.
changes=$(git status --porcelain --untracked-files=all | grep -v '^A  ' || true)
if [ -n "$changes" ]; then
	echo "These files are not as generated; run 'make gen' and commit them:" >&2
	echo "$changes" >&2
	git --no-pager diff --stat >&2
	exit 1
fi
