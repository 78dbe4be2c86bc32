# Mainstay. `make help` lists the targets; CONTRIBUTING.md says when to use which.

# VERSION is stamped into the binary, the image and the packaged chart. The tree itself always
# says 0.0.0-dev. TAG is the image's tag, if that is not the version.
VERSION ?= 0.0.0-dev
IMAGE ?= docker.io/mainstay/mainstay:$(or $(TAG),$(VERSION))
# GOARCH is the architecture of the image. Recipes do not have it in their environment: programs that run here, such as
# tools/image, are compiled for this machine.
GOARCH ?= $(shell go env GOARCH)
unexport GOARCH

# BINARY and ARCHIVE are what "build" and "image" make, and the other programs of the image are beside BINARY: further releases, for
# tests of upgrades, are made in a folder of their own.
BINARY ?= bin/mainstay
ARCHIVE ?= bin/mainstay-image.tar

# PACKAGED is where "push", "chart" and "sbom" put what they make and say, and where what publishes them finds it.
PACKAGED ?= bin

# CHART is the chart that "deploy" installs, with options of Helm's if need be.
CHART ?= charts/mainstay

# All programs and tools are compiled with the same settings, so that Go's build cache serves them with the same packages: those of
# Kubernetes, once compiled, are four fifths of everything else. Only the race detector needs C.
export CGO_ENABLED := 0
export GOFLAGS := $(strip $(filter-out -trimpath -buildvcs=false,$(GOFLAGS)) -trimpath -buildvcs=false)

MODULE := github.com/mainstay-platform/mainstay
LDFLAGS := -s -w -X $(MODULE)/internal/version.Version=$(VERSION)
static = GOOS=linux GOARCH=$(GOARCH) go build -ldflags '$(LDFLAGS)'
# The modules of this repository, the product first. testbed/kube and the like are built by
# the testbed and have no code of their own.
MODULES := . testbed tools/codegen tools/helm tools/image tools/kwok tools/lint tools/monitoring tools/scan tools/workflows
# LINTED are those with code, but the product.
LINTED := testbed tools/helm tools/image tools/monitoring
CRDS := charts/mainstay/crds
# manifest is a chart with its default values, for kubectl.
manifest = bin/helm template mainstay $(1) --include-crds --no-hooks --namespace mainstay-system \
	| go run ./hack/manifest --namespace mainstay-system
# started builds a program of hack/ and runs it in the place of the recipe's shell. It has to delete what it has started when it
# gets SIGTERM, which `go run` would not pass on.
started = go build -o bin/$(1) ./hack/$(1) && exec bin/$(1)
testrun = $(call started,testrun)
CONTROLLER_GEN := go tool -modfile=tools/codegen/go.mod controller-gen
OPENAPI_GEN := go tool -modfile=tools/codegen/go.mod openapi-gen
# ANY_QUANTITY is the pattern that controller-gen writes for a quantity. SHORT_QUANTITY replaces it: more digits, or a
# larger exponent, take a parser minutes.
ANY_QUANTITY := ^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$$
SHORT_QUANTITY := ^(\+|-)?(([0-9]{1,40}(\.[0-9]{0,20})?)|(\.[0-9]{1,20}))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]{1,2}))?$$
# SERVED are the packages whose types the aggregated API serves, MACHINERY those that every API server needs beside.
SERVED := ./api/farm/v1alpha1
MACHINERY := $(addprefix k8s.io/apimachinery/pkg/,apis/meta/v1 runtime version api/resource)

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
build: ## build the manager, our API server, and the program in database pods into bin/mainstay, -apiserver and -instance, static
	$(static) -o $(BINARY) ./cmd/mainstay
	$(static) -o $(dir $(BINARY))mainstay-apiserver ./cmd/mainstay-apiserver
	$(static) -o $(dir $(BINARY))mainstay-instance ./cmd/mainstay-instance

.PHONY: run
run: ## run the manager here, against the current kube context
	go run ./cmd/mainstay manager --leader-elect=false --log-format=text --install-crds

.PHONY: gen
gen: bin/helm ## make the generated files: deepcopy, CRDs, OpenAPI, roles, docs/metrics.md, dashboard, dist
	rm -rf bin/crds
	$(CONTROLLER_GEN) object crd paths=./api/... output:crd:dir=bin/crds
	ANY='$(ANY_QUANTITY)' SHORT='$(SHORT_QUANTITY)' perl -pi -e 's/\Q$$ENV{ANY}\E/$$ENV{SHORT}/' bin/crds/*.yaml
	@# Definitions of kinds that are no more would be installed for ever.
	@for file in $(CRDS)/*.yaml; do [ -e bin/crds/$${file##*/} ] || rm -v $$file; done
	cp bin/crds/*.yaml $(CRDS)
	$(OPENAPI_GEN) --go-header-file /dev/null --output-dir internal/aggregated/openapi --output-pkg $(MODULE)/internal/aggregated/openapi --output-file zz_generated.openapi.go \
		--output-model-name-file zz_generated.model_name.go $(addprefix --readonly-pkg ,$(MACHINERY)) --report-filename bin/openapi-report.txt $(SERVED) $(MACHINERY)
	go run ./hack/metrics --output docs/metrics.md
	cd tools/monitoring && go run ./dashboard --output ../../charts/mainstay/files/dashboard.json
	go run ./hack/rbac --output charts/mainstay/files/rbac internal
	mkdir -p dist
	$(call manifest,charts/mainstay) > bin/install.yaml
	cp bin/install.yaml dist/install.yaml

# IN_REGISTRY is the image in $REGISTRY, without its digest.
IN_REGISTRY = $(REGISTRY)/mainstay/mainstay:$(or $(TAG),$(VERSION))

.PHONY: chart
chart: bin/helm ## package the chart into bin/, and bin/install.yaml made of it; with $REGISTRY for what `make push` has pushed there, by digest
	rm -rf $(PACKAGED)/chart
	mkdir -p $(PACKAGED)/chart
	cp -r charts/mainstay $(PACKAGED)/chart/
ifneq ($(REGISTRY),)
	@digest="$$(sed -n 's|^$(IN_REGISTRY)@\(sha256:[0-9a-f]\{64\}\)$$|\1|p' $(PACKAGED)/pushed || true)"; \
	[ -n "$$digest" ] || { echo "chart: $(PACKAGED)/pushed does not name $(IN_REGISTRY): run make push before, with the same variables" >&2; exit 1; }; \
	values=$(PACKAGED)/chart/mainstay/values.yaml; \
	sed -i -e 's|^  registry: docker\.io$$|  registry: $(REGISTRY)|' -e "s|^  digest: \"\"$$|  digest: $$digest|" "$$values"; \
	for line in "  registry: $(REGISTRY)" "  digest: $$digest"; do \
		[ "$$(grep -cxF "$$line" "$$values")" = 1 ] || { echo "chart: values.yaml does not have exactly one image to replace" >&2; exit 1; }; \
	done
endif
	bin/helm package $(PACKAGED)/chart/mainstay --version $(VERSION) --app-version $(VERSION) --destination $(PACKAGED)
	$(call manifest,$(PACKAGED)/mainstay-$(VERSION).tgz) > $(PACKAGED)/install.yaml

.PHONY: image
image: build ## make the image archive bin/mainstay-image.tar (no Docker needed)
	cd tools/image && go run . --binary ../../$(BINARY) --arch $(GOARCH) --version $(VERSION) --name $(IMAGE) --output ../../$(ARCHIVE)

.PHONY: push
push: build ## push the image to $REGISTRY, with the tag $TAG or else $VERSION; bin/pushed says what it is, with its digest
	mkdir -p $(PACKAGED)
	(cd tools/image && go run . --binary ../../$(BINARY) --arch $(GOARCH) --version $(VERSION) --name $(IMAGE) --output "" --push) | tee $(PACKAGED)/pushed

## -- release and deploy: what .github/workflows runs

# UNUSED is what GitHub has installed on a runner for others: some 27 GiB. Elsewhere it may be in use.
UNUSED := /usr/share/dotnet /usr/share/swift /usr/local/lib/android /usr/local/.ghcup /opt/ghc /opt/hostedtoolcache/CodeQL

.PHONY: clear-runner
clear-runner: ## remove from a runner of GitHub's what nothing here uses: it has 14 GB free at least, and some jobs need more
	@[ "$${RUNNER_ENVIRONMENT:-}" = github-hosted ] || { echo "clear-runner: this is no runner of GitHub's: nothing is removed"; exit 0; }; \
	sudo rm -rf $(UNUSED); \
	df -h /

.PHONY: version
version: ## print VERSION=... of RELEASE=vX.Y.Z, or else of this commit: later than the last release, earlier than the next
	@hack/version.sh "$${RELEASE:-}"

.PHONY: registry
registry: ## run a registry on this machine's loopback, at 127.0.0.1:5000, until it is stopped: to try what pushes
	cd tools/image && go run ./registry

.PHONY: sbom
sbom: build ## list the parts of the three programs in bin/mainstay-sbom.cdx.json (CycloneDX)
	mkdir -p $(PACKAGED)
	cd tools/image && go run . --binary ../../$(BINARY) --arch $(GOARCH) --version $(VERSION) --output "" --sbom $(abspath $(PACKAGED))/mainstay-sbom.cdx.json

.PHONY: sign
sign: ## sign what `make push` has pushed, and its list of parts, with cosign (needs it, and an identity or COSIGN_KEY)
	cosign sign --yes $(if $(COSIGN_KEY),--key $(COSIGN_KEY)) "$$(cat $(PACKAGED)/pushed)"
	cosign attest --yes $(if $(COSIGN_KEY),--key $(COSIGN_KEY)) --type cyclonedx --predicate $(PACKAGED)/mainstay-sbom.cdx.json "$$(cat $(PACKAGED)/pushed)"

.PHONY: tag-image
tag-image: ## give what `make push` has pushed the tag VERSION too, unless that is another image
	cd tools/image && go run . --version $(VERSION) --tag "$$(cat $(abspath $(PACKAGED))/pushed)"

# Only a registry on loopback may be without TLS.
.PHONY: push-chart
push-chart: bin/helm ## push the packaged chart to $REGISTRY/charts
	bin/helm push $(PACKAGED)/mainstay-$(VERSION).tgz oci://$(REGISTRY)/charts $(if $(filter 127.0.0.1:% localhost:%,$(REGISTRY)),--plain-http)

.PHONY: release-changelog
release-changelog: ## move the entries of changelog/unreleased to changelog/VERSION: the first step of a release
	go run ./hack/notes --version $(VERSION) --move

.PHONY: release-notes
release-notes: ## write the notes of VERSION to bin/release-notes.md; FINAL=yes refuses entries that are still unreleased
	mkdir -p $(PACKAGED)
	go run ./hack/notes --version $(VERSION) $(if $(FINAL),--final) > $(PACKAGED)/release-notes.md
	@cat $(PACKAGED)/release-notes.md

.PHONY: release
release: release-notes ## publish the release of the tag vVERSION, with its notes and files (needs gh and GH_TOKEN)
	gh release create v$(VERSION) --verify-tag --title "Mainstay $(VERSION)" --notes-file $(PACKAGED)/release-notes.md $(if $(findstring -,$(VERSION)),--prerelease) \
		$(addprefix $(PACKAGED)/,mainstay-sbom.cdx.json mainstay-$(VERSION).tgz install.yaml)

.PHONY: scan-code
scan-code: bin/golangci-lint ## look for weaknesses in what is shipped: bin/sarif/code.sarif; fails if there are any
	mkdir -p bin/sarif
	bin/golangci-lint run --allow-parallel-runners --enable-only=gosec --tests=false --output.text.path=stdout --output.sarif.path=bin/sarif/code.sarif ./api/... ./charts/... ./cmd/... ./internal/...

.PHONY: scan-dependencies
scan-dependencies: ## look for known vulnerabilities in what we use: bin/sarif/dependencies.sarif; fails if there are any (asks vuln.go.dev)
	mkdir -p bin/sarif
	go tool -modfile=tools/scan/go.mod govulncheck -format sarif ./... > bin/sarif/dependencies.sarif
	@# As SARIF it succeeds whatever it finds.
	go tool -modfile=tools/scan/go.mod govulncheck ./...

# After a failure the events say why: its pods are gone then. Without --reset-values Helm would keep the values of the
# release before where none are given.
.PHONY: deploy
deploy: bin/helm ## install or upgrade Mainstay in the current cluster, or roll back: [CHART=FILE|oci://...] [TAG=1.2.3] [REGISTRY=ghcr.io/you] [VALUES="--set ..."]
	bin/helm upgrade --install mainstay $(CHART) --namespace mainstay-system --create-namespace --wait --timeout 5m --rollback-on-failure --reset-values \
		$(if $(TAG),--set image.tag=$(TAG)) $(if $(REGISTRY),--set image.registry=$(REGISTRY)) $(VALUES) \
		|| { $${KUBECTL:-kubectl} --namespace mainstay-system get events --sort-by=.lastTimestamp >&2; exit 1; }

.PHONY: smoke
smoke: ## apply config/samples/staging-*.yaml in the current cluster, wait until they are Ready, and change something
	hack/smoke.sh

.PHONY: staging
staging: bin/helm ## deploy what `make chart` has packaged to the cluster of $STAGING_KUBECONFIG (a kubeconfig's content), and run `make smoke` there
	CHART=$(abspath $(PACKAGED))/mainstay-$(VERSION).tgz hack/staging.sh

.PHONY: undeploy
undeploy: bin/helm ## uninstall Mainstay from the current cluster; EVERYTHING=yes deletes all objects of our kinds and their CRDs too
	EVERYTHING=$(EVERYTHING) hack/undeploy.sh

## -- checks

.PHONY: verify
verify: verify-gen tidy-check lint ## all checks but the tests; fails on what `make gen` would change

.PHONY: verify-gen
verify-gen: ## fail if generated files are not up to date
	hack/verify-gen.sh

.PHONY: tidy-check
tidy-check: ## fail if a go.mod is not tidy
	@printf '%s\n' $(MODULES) | xargs -P 2 -I MODULE sh -ec 'echo "tidy: MODULE"; cd MODULE; go mod tidy -diff'

.PHONY: lint
lint: bin/golangci-lint ## run the linters over every module, and over the workflows
	go tool -modfile=tools/workflows/go.mod actionlint
	bin/golangci-lint run ./...
	@for module in $(LINTED); do echo "lint: $$module"; (cd $$module && $(CURDIR)/bin/golangci-lint run --config $(CURDIR)/.golangci.yml ./...); done

.PHONY: quick
quick: ## vet, and the pure tests, of what you changed since main: at most 90 seconds
	$(testrun) quick

.PHONY: affected
affected: ## run what your change since main can affect, in every layer
	$(testrun) affected

.PHONY: flake
flake: ## run the tests that you changed since main 20 times, but those on a cluster, beside two busy loops
	$(testrun) flake

.PHONY: nightly
nightly: ## run what `make test` has no time for: every fault, race detector and new seeds everywhere, fuzzing, load (some hours)
	$(testrun) nightly

.PHONY: nightly-databases
nightly-databases: ## the same of databases: their faults again and again, and every PostgreSQL (some hours)
	$(testrun) nightly-databases

.PHONY: test-pure
test-pure: ## run the tests that need nothing but Go
	$(testrun) pure

.PHONY: test
test: ## run every test, and all checks: what CI runs (root, Debian; installs what it needs)
	$(testrun)

.PHONY: test-integration
test-integration: ## run the tests against a real etcd and kube-apiserver
	$(testrun) integration

.PHONY: test-faults
test-faults: ## run a part of `make faults`, as `make test` does
	$(testrun) faults

.PHONY: faults
faults: export MAINSTAY_FAULT_PLAN := $(if $(PLAN),$(abspath $(PLAN)))
faults: ## let every request of the manager fail in every way, or, with PLAN=FILE, as a plan says
	$(testrun) $(if $(PLAN),faults-plan,faults-whole instances-whole)

.PHONY: test-instances
test-instances: ## run the simulator, and databases with real PostgreSQL servers on this machine, to which faults happen
	$(testrun) instances

.PHONY: faults-instances
faults-instances: ## let each of these faults happen 200 times, and print for how long no write was acknowledged: p50, p95, max
	$(testrun) faults-instances

.PHONY: test-postgresql
test-postgresql: ## run databases with PostgreSQL 12 to 18; not part of `make test`, which has 17
	$(testrun) postgresql

.PHONY: test-compat
test-compat: ## run the integration tests against Kubernetes 1.33, 1.34 and 1.36; not part of `make test`
	$(testrun) compat-1.33 compat-1.34 compat-1.36

.PHONY: test-e2e
test-e2e: ## run the tests against a real cluster with real pods
	$(testrun) testbed e2e testbed-down databases-brief installations

.PHONY: test-databases
test-databases: ## let all that can happen to a PostgreSQL or a Cache happen on a real cluster of three nodes; `make test` has one of each sort
	$(testrun) databases

.PHONY: test-database-versions
test-database-versions: ## start a PostgreSQL and a Cache of each version on a real cluster, and let them fail over
	$(testrun) databases-versions

.PHONY: faults-databases
faults-databases: ## let each of these things happen 10 to 20 times (ROUNDS=), and print for how long no write was acknowledged: p50, p95, max
	$(testrun) faults-databases

.PHONY: bench-databases
bench-databases: ## compare the transactions a second of a PostgreSQL with those of the same server started by hand
	$(testrun) databases-speed

.PHONY: test-databases-alone
test-databases-alone: ## let what needs no manager happen to a PostgreSQL and to a Cache while none runs
	$(testrun) databases-alone

.PHONY: test-outage
test-outage: ## take the API server away for five minutes; not part of `make test`, which does so for 40 seconds
	$(testrun) testbed outage testbed-down

.PHONY: test-tools
test-tools: ## run the tests of the chart and of the tools
	$(testrun) tools

.PHONY: test-pipeline
test-pipeline: ## run what the workflows run for staging and a release, against a registry on loopback and a fake cluster
	cd tools/image && go test -count=1 -run 'Pipeline|Sign' .
	go test -count=1 ./hack ./hack/notes ./changelog ./docs

.PHONY: bench
bench: bin/kwok ## measure on a real API server and compare with the committed baseline; PARTS="rest webhook" chooses
	cd testbed && go build -o ../bin/testbed ./cmd/testbed
	go build -o bin/perf ./test/perf
	bin/perf --assets=$$(bin/testbed assets) --stages=$$(cd tools/kwok && go list -m -f '{{.Dir}}' sigs.k8s.io/kwok)/kustomize/stage $(BENCH) $(PARTS)

.PHONY: bench-baseline
bench-baseline: ## measure, and make that the baseline and what docs/performance.md says
	$(MAKE) bench BENCH='--baseline= --output=test/perf/baseline.json --page=docs/performance.md'

## -- see it

.PHONY: demo
demo: ## build everything and show Mainstay on a real cluster (root, Debian; the first time it compiles Kubernetes)
	$(call started,demo)

.PHONY: demo-down
demo-down: ## end the demo's cluster and leave nothing behind but caches
	cd testbed && go build -o ../bin/testbed ./cmd/testbed
	bin/testbed down

## -- tools, pinned by their go.mod

# tool copies a tool out of Go's build cache, where `go tool` keeps the programs that it links: a fresh clone does not link it anew.
# Tests run two of them at a time, and none may start a half-copied program.
tool = mkdir -p bin && cd tools/$(1) && cp -f "$$(go tool -n $(2))" ../../bin/$(2).$$$$ && mv -f ../../bin/$(2).$$$$ ../../bin/$(2)

bin/helm: tools/helm/go.mod
	$(call tool,helm,helm)

bin/kwok: tools/kwok/go.mod
	cd tools/kwok && go build -trimpath -buildvcs=false -ldflags '-s -w' -o ../../bin/kwok sigs.k8s.io/kwok/cmd/kwok

bin/golangci-lint: tools/lint/go.mod
	$(call tool,lint,golangci-lint)
