# Mainstay. `make help` lists the targets; CONTRIBUTING.md says when to use which.

# VERSION is stamped into the binary, the image and the packaged chart. The tree itself always
# says 0.0.0-dev.
VERSION ?= 0.0.0-dev
IMAGE ?= docker.io/mainstay/mainstay:$(VERSION)
GOARCH ?= $(shell go env GOARCH)

MODULE := github.com/mainstay-platform/mainstay
LDFLAGS := -s -w -X $(MODULE)/internal/version.Version=$(VERSION)
# The modules of this repository, the product first. testbed/kube and the like are built by
# the testbed and have no code of their own.
MODULES := . testbed tools/codegen tools/helm tools/image tools/lint tools/monitoring
# LINTED are those with code, but the product.
LINTED := testbed tools/helm tools/image tools/monitoring
CRDS := charts/mainstay/crds
CONTROLLER_GEN := go tool -modfile=tools/codegen/go.mod controller-gen

.DEFAULT_GOAL := help
# A recipe that fails leaves no half-made file that looks up to date.
.DELETE_ON_ERROR:
SHELL := bash
.SHELLFLAGS := -euo pipefail -c

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 18

## -- code and what is made of it

.PHONY: build
build: ## build the manager into bin/mainstay, static
	CGO_ENABLED=0 GOOS=linux GOARCH=$(GOARCH) go build -trimpath -buildvcs=false -ldflags '$(LDFLAGS)' -o bin/mainstay ./cmd/mainstay

.PHONY: run
run: ## run the manager here, against the current kube context
	go run ./cmd/mainstay manager --leader-elect=false --log-format=text --install-crds

.PHONY: gen
gen: bin/helm ## make the generated files: deepcopy, CRDs, roles, docs/metrics.md, dashboard, dist
	rm -rf bin/crds
	$(CONTROLLER_GEN) object crd paths=./api/... output:crd:dir=bin/crds
	@# Definitions of kinds that are no more would be installed for ever.
	@for file in $(CRDS)/*.yaml; do [ -e bin/crds/$${file##*/} ] || rm -v $$file; done
	cp bin/crds/*.yaml $(CRDS)
	go run ./hack/metrics --output docs/metrics.md
	cd tools/monitoring && go run ./dashboard --output ../../charts/mainstay/files/dashboard.json
	go run ./hack/rbac --output charts/mainstay/files/rbac internal
	mkdir -p dist
	bin/helm template mainstay charts/mainstay --include-crds --namespace mainstay-system \
		| go run ./hack/manifest --namespace mainstay-system > bin/install.yaml
	cp bin/install.yaml dist/install.yaml

.PHONY: chart
chart: bin/helm ## package the chart into bin/
	bin/helm package charts/mainstay --version $(VERSION) --app-version $(VERSION) --destination bin

.PHONY: image
image: build ## make the image archive bin/mainstay-image.tar (no Docker needed)
	cd tools/image && go run . --binary ../../bin/mainstay --arch $(GOARCH) --version $(VERSION) --name $(IMAGE) --output ../../bin/mainstay-image.tar

.PHONY: push
push: build ## push the image to $REGISTRY
	cd tools/image && go run . --binary ../../bin/mainstay --arch $(GOARCH) --version $(VERSION) --name $(IMAGE) --output "" --push

## -- checks

.PHONY: verify
verify: verify-gen tidy-check lint ## all checks but the tests; fails on what `make gen` would change

.PHONY: verify-gen
verify-gen: gen ## fail if generated files are not up to date
	@hack/unchanged.sh charts/mainstay/files charts/mainstay/crds dist docs/metrics.md ':(glob)api/**/zz_generated.*.go'

.PHONY: tidy-check
tidy-check: ## fail if a go.mod is not tidy
	@for module in $(MODULES); do echo "tidy: $$module"; (cd $$module && go mod tidy -diff); done

.PHONY: lint
lint: bin/golangci-lint ## run the linters over every module
	bin/golangci-lint run ./...
	@for module in $(LINTED); do echo "lint: $$module"; (cd $$module && $(CURDIR)/bin/golangci-lint run --config $(CURDIR)/.golangci.yml ./...); done

.PHONY: test-pure
test-pure: ## run the tests that need nothing but Go
	go run ./hack/testrun pure

.PHONY: test
test: ## run every test, and all checks: what CI runs (root, Debian; installs what it needs)
	go run ./hack/testrun

.PHONY: test-integration
test-integration: ## run the tests against a real etcd and kube-apiserver
	go run ./hack/testrun integration

.PHONY: test-compat
test-compat: ## run the integration tests against the Kubernetes before ours (1.36); not part of `make test`
	go run ./hack/testrun compat

.PHONY: test-e2e
test-e2e: ## run the tests against a real cluster with real pods
	go run ./hack/testrun e2e

.PHONY: test-tools
test-tools: ## run the tests of the chart and of the tools
	go run ./hack/testrun tools

## -- see it

.PHONY: demo
demo: ## build everything and show Mainstay on a real cluster (root, Debian; some 12 minutes the first time)
	go run ./hack/demo

.PHONY: demo-down
demo-down: ## end the demo's cluster and leave nothing behind but caches
	cd testbed && go build -o ../bin/testbed ./cmd/testbed
	bin/testbed down

## -- tools, pinned by their go.mod

bin/helm: tools/helm/go.mod
	cd tools/helm && go build -trimpath -buildvcs=false -ldflags '-s -w' -o ../../bin/helm helm.sh/helm/v4/cmd/helm

bin/golangci-lint: tools/lint/go.mod
	cd tools/lint && go build -trimpath -buildvcs=false -ldflags '-s -w' -o ../../bin/golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint
