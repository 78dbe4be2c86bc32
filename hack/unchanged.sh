#!/usr/bin/env bash
# Fails if git sees a change or a new file below the given paths, and says which.
set -euo pipefail
changes=$(git status --porcelain --untracked-files=all -- "$@")
if [ -n "$changes" ]; then
	echo "These files are not as generated; run 'make gen' and commit them:" >&2
	echo "$changes" >&2
	git --no-pager diff --stat -- "$@" >&2
	exit 1
fi
