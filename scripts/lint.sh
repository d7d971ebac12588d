#!/usr/bin/env bash
# Lints with pinned tools, which the Go command fetches and builds.
#   staticcheck  bugs, simplifications, unused code, and style (configuration: staticcheck.conf)
#   gofumpt      the stricter gofmt
set -euo pipefail
cd "$(dirname "$0")/.."

staticcheck=honnef.co/go/tools/cmd/staticcheck@v0.7.0
gofumpt=mvdan.cc/gofumpt@v0.9.2

go run "$staticcheck" ./...
changed=$(go run "$gofumpt" -l $(git ls-files '*.go'))
if [ -n "$changed" ]; then echo "gofumpt would change: $changed" >&2; exit 1; fi
