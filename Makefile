# Everything a developer does has a target here; CI runs these and nothing else.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
# The same for every target: what one compiles, the next finds in Go's cache.
export CGO_ENABLED := 0
export GOFLAGS := -trimpath -buildvcs=false

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
TOOL := hack/tool.sh
# Modules of the repository that hold code of ours (test/cluster/parts only pin what is built from elsewhere).
MODULES := . test/cluster examples/own-kind
GO_BUILD := go build -ldflags "-s -w -X main.version=$(VERSION)"
ARCH := $(shell go env GOARCH)
# The operator's image, as manifests name it: make image dist IMAGE=registry.example.com/holdfast/operator:1
# The center's is called the same, with another last word, unless CENTER_IMAGE names it.
DEV_IMAGE := holdfast/operator:dev
DEV_CENTER_IMAGE := holdfast/center:dev
IMAGE ?= $(DEV_IMAGE)
CENTER_IMAGE ?= $(if $(findstring /operator:,$(IMAGE)),$(subst /operator:,/center:,$(IMAGE)),$(error name the image of the center, too: CENTER_IMAGE=...))

# How many rounds of a measurement have to count: make bench-smoke ROUNDS=3; 0 means as many as its profile has.
ROUNDS ?= 0

# The test cluster: make cluster-up LEVEL=control-plane DIR=.cluster-b PORT=17443 KUBERNETES=1.34.4 AUDIT=true
LEVEL ?= node
DIR ?= .cluster
PORT ?= 16443
KUBERNETES ?=
AUDIT ?= false
CLUSTER := bin/cluster
KUBECTL := bin/k8s/kubectl --kubeconfig=$(DIR)/kubeconfig

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Code
.PHONY: generate
generate: ## Regenerate everything that is generated
	$(TOOL) controller-gen object paths=./api/...
	$(TOOL) controller-gen crd paths=./api/... output:crd:dir=config/crd
	$(TOOL) controller-gen rbac:roleName=holdfast-operator paths=./cmd/... paths=./engine/... paths=./internal/configrefs/... paths=./internal/controller/... output:rbac:dir=config/rbac
	$(TOOL) controller-gen rbac:roleName=holdfast-operator paths=./engine/... paths=./internal/configrefs/... paths=./internal/controller/... output:rbac:dir=config/rbac/namespaced
	cd examples/own-kind && $(CURDIR)/$(TOOL) controller-gen object crd rbac:roleName=guestbook-operator \
	  paths=. paths=github.com/holdfast-dev/holdfast/engine paths=github.com/holdfast-dev/holdfast/internal/configrefs output:crd:dir=config/crd output:rbac:dir=config
	hack/update-codegen.sh
	for m in $(MODULES); do (cd $$m && go mod tidy); done

.PHONY: lint
lint: ## Check style and the import arrows
	for m in $(MODULES); do (cd $$m && $(CURDIR)/$(TOOL) golangci-lint run --config $(CURDIR)/.golangci.yml ./...); done

.PHONY: lint-names
lint-names: ## Reject names that use a word of hack/lintnames/words.txt
	go run ./hack/lintnames hack/lintnames/words.txt .

.PHONY: fmt
fmt: ## Format the code
	for m in $(MODULES); do (cd $$m && $(CURDIR)/$(TOOL) golangci-lint fmt --config $(CURDIR)/.golangci.yml ./...); done

.PHONY: vuln
vuln: ## Look for known vulnerabilities that our code reaches
	hack/vulncheck.sh $(MODULES)

.PHONY: verify
verify: ## Regenerate, lint and fail on any difference
	hack/verify-clean.sh $(MAKE) generate
	for o in cluster-wide namespaced; do $(TOOL) kustomize build config/overlays/$$o >/dev/null; done
	$(MAKE) lint-names lint vuln

##@ Tests
.PHONY: test
test: ## Run everything that needs no cluster
	for m in $(MODULES); do (cd $$m && go test -short ./...); done

.PHONY: cover
cover: ## Check that the tests of pure packages cover what hack/coverage.txt asks for
	hack/cover.sh

# Suites that drive the operator's own program, built with the race detector: the tests need none.
STORIES := /internal/controller/|/internal/cli/(doctor|find|verbs|logs)$$|/test/
# Suites that mostly wait, three at a time.
BESIDE := /internal/cli/|/test/(docs|everything|falsepositives|importrules|install|invalidspecs|planaccuracy|policy|schemawalk|watchgaps|withplane)
# Suites that count or measure: one at a time, or they would measure each other.
MEASURE := /test/(apibudget|bench|center|database|pluginscale)
# Samples of long suites differ from commit to commit; a failure prints how to repeat it.
COMMIT_SEED = $(shell echo $$((0x$$(git rev-parse HEAD 2>/dev/null | cut -c1-7 | grep . || echo 1))))
# The linter has run vet.
GO_TEST := go test -vet=off
.PHONY: test-api
test-api: export HOLDFAST_SEED ?= $(COMMIT_SEED)
test-api: export HOLDFAST_PREBUILT = $(CURDIR)/bin
test-api: assets test-programs ## Run what needs an API server, with the race detector
	@echo "samples of long suites: HOLDFAST_SEED=$$HOLDFAST_SEED"; failed=0; \
	group() { printf '\n--- %s\n' "$$1"; shift; "$$@" || failed=1; }; \
	packages=$$(go list ./...); \
	group "packages, with the race detector" env CGO_ENABLED=1 bin/withplane $(GO_TEST) -race $$(grep -vE '$(STORIES)' <<<"$$packages"); \
	group "interleavings" $(GO_TEST) -run Interleavings ./engine; \
	group "suites that mostly wait" $(GO_TEST) -p 3 $$(grep -E '$(STORIES)' <<<"$$packages" | grep -E '$(BESIDE)'); \
	group "own-kind example" go -C examples/own-kind test -vet=off ./...; \
	group "stories and faults" $(GO_TEST) -p 1 $$(grep -E '$(STORIES)' <<<"$$packages" | grep -vE '$(BESIDE)|$(MEASURE)|/test/e2e'); \
	group "budgets and latencies" $(GO_TEST) -p 1 $$(grep -E '$(MEASURE)' <<<"$$packages"); \
	exit $$failed

# One build for all packages; each would look for changes in a thousand packages.
.PHONY: test-programs
test-programs: ## Build the operator for tests, with and without the race detector
	CGO_ENABLED=1 go build -race -o bin/race/operator ./cmd/operator
	go build -o bin/fast/operator ./cmd/operator
	go build -o bin/withplane ./test/withplane

# The stories in full: fights of a minute, restarts at every moment, an outage of a minute.
.PHONY: test-long
test-long: assets test-programs ## Run the long stories of all kinds, without sampling (25 minutes)
	HOLDFAST_LONG=1 HOLDFAST_PREBUILT=$(CURDIR)/bin go test -count=1 -p 1 -timeout 60m ./cmd/operator ./internal/controller/... ./test/policy ./test/install

# Every long suite in full, with fresh seeds; continues after failures and skips what has passed
# with the same code: make everything, make everything SUITES=faults,calls.
SUITES ?=
.PHONY: everything
everything: ## Run every long suite in full and write docs/reports/everything.md (5 hours, needs root)
	go run ./test/everything -suites=$(SUITES)

.PHONY: test-e2e
test-e2e: images build dist ## Run the test cluster's own tests and the journeys on a real node (needs root)
	cd test/cluster && go test -count=1 -p 1 -parallel 8 -v -timeout 20m ./...
	go test -count=1 -v -timeout 20m ./test/e2e

# Everything that can go wrong: make faults (all), make faults PLANS=200 SEED=7 (a sample of the
# plans), make faults REPLAY=<line> (one case), make faults KINDS=crash,travel (all of some kinds),
# make faults STEPS=data- (all of some steps).
PLANS ?=
SEED ?= 1
REPLAY ?=
KINDS ?=
STEPS ?=
WORKERS ?= 10
FAULTS_OUT := $(CURDIR)/out/faults
FAULTS_TEST := HOLDFAST_LONG=1 HOLDFAST_FAULTS_OUT=$(FAULTS_OUT) go test -count=1 -v -p 1 -timeout 4h
.PHONY: faults
faults: assets ## Crash, starve and mislead the operator at every write (100 minutes; PLANS=200 for a sample)
	rm -rf $(FAULTS_OUT)
ifneq ($(REPLAY)$(PLANS)$(KINDS)$(STEPS),)
	$(FAULTS_TEST) ./test/faults -run TestPlans -plans=$(or $(PLANS),0) -seed=$(SEED) -kinds='$(KINDS)' -steps='$(STEPS)' -replay='$(REPLAY)' -workers=$(WORKERS)
else
	start=$$(date +%s); failed=0; \
	$(FAULTS_TEST) -parallel 2 ./test/faults -plans=0 -seed=$(SEED) -workers=$(WORKERS) -clean=5 || failed=1; \
	$(FAULTS_TEST) ./test/faults/environment || failed=1; \
	$(FAULTS_TEST) ./engine -run Interleav || failed=1; \
	$(FAULTS_TEST) ./internal/controller/appstack -run TestDeletion || failed=1; \
	go run ./test/faults/summary $(FAULTS_OUT) $$(( ($$(date +%s) - start) / 60 )) out/faults.json docs/reports/faults.md; \
	exit $$failed
endif

.PHONY: schema-walk
schema-walk: assets ## Set, change and unset every field that the schemas have
	go test -count=1 -v -timeout 30m ./test/schemawalk -all -report

.PHONY: misuse
misuse: assets ## Hold every wrong spec against what its user is told; writes docs/reports/misuse.md
	HOLDFAST_LONG=1 HOLDFAST_MISUSE_OUT=$(CURDIR) go test -count=1 -v -timeout 20m ./test/invalidspecs

.PHONY: data-matrix
data-matrix: assets ## Do everything to data after everything else; writes the table of docs/user/data-safety.md
	go test -count=1 -v -timeout 30m ./test/datamatrix -all -report

# What is promised of databases beyond what CI looks at: real servers of every version, real probes, and time to wait.
ROTATIONS ?= 500
TIMES ?= 10
.PHONY: test-db
test-db: images build dist ## Rotate, fill, kill, lose and hang databases, with real servers (40 minutes, needs root)
	go test -count=1 -v ./internal/rotation ./internal/mariadb/...
	go test -count=1 -v -timeout 40m ./internal/database -rotations=$(ROTATIONS)
	HOLDFAST_LONG=1 go test -count=1 -v -timeout 20m ./test/datamatrix -run TestDatabases -all
	HOLDFAST_LONG=1 go test -count=1 -v -timeout 20m ./test/database
	HOLDFAST_LONG=1 go test -count=1 -v -timeout 20m ./test/e2e -run 'TestDatabase|TestJourneys/DatabasePage'
	$(FAULTS_TEST) ./test/faults -run TestPlans -plans=0 -seed=$(SEED) -steps=database- -workers=$(WORKERS)

.PHONY: database-report
database-report: images build dist ## Write down what those who use a database notice: docs/reports/database.md
	go test -count=1 -v -timeout 170m ./test/e2e -run 'TestDatabase$$' -rounds=$(TIMES)
	cp out/database.md docs/reports/database.md

.PHONY: watch-battery
watch-battery: assets ## Cut and expire kubectl holdfast watch under 10,000 changes and add up what it printed
	HOLDFAST_LONG=1 go test -count=1 -v -timeout 20m ./test/watchgaps

.PHONY: causes
causes: build images dist ## Provoke every cause that can be provoked on a real node, and read its name (needs root, half an hour)
	go test -count=1 -v ./internal/explain -run 'TestCauses|TestRefused'
	HOLDFAST_LONG=1 go test -count=1 -v -timeout 30m ./test/e2e -run TestCauses
	go test -count=1 -v -timeout 30m ./test/falsepositives -apps=100

.PHONY: test-center
test-center: assets ## Hold the application center against the API server, in full (20 minutes)
	HOLDFAST_LONG=1 go test -count=1 -v -timeout 40m ./test/center -changes=10000
	HUB_FIGURES=1 go test -count=1 -v -run Figures ./internal/center/sse

.PHONY: plan-truth
plan-truth: assets ## Hold 100 plans of random edits against what the operator then does (SEED=2 for others)
	HOLDFAST_LONG=1 go test -count=1 -v -timeout 20m ./test/planaccuracy -seed=$(SEED)

##@ Measurements
.PHONY: calls
calls: assets ## Count what the operator asks of the API server and hold it against the budget
	go test -count=1 -v -timeout 30m ./test/apibudget -apps=200 -stacks=200 -settle=60s -updates=50 -abreast=1

.PHONY: plugin-scale
plugin-scale: assets ## Time status, why and tree beside 5,000 pods of others, and count their requests
	HOLDFAST_LONG=1 go test -count=1 -v -timeout 20m ./test/pluginscale

.PHONY: center-memory
center-memory: assets ## See what the center needs to hold 20,000 objects and 50,000 ConfigMaps, beside client-go
	HOLDFAST_LONG=1 go test -count=1 -v -timeout 30m ./test/center -run TestMemory

# What is measured, and beside whom: make bench PROFILE=full (150 minutes). Only a full run is
# written to docs/reports/bench.md; a quick one is looked at in out/. RESUME=1 goes on with what
# an earlier sitting has left in out/, of the same commit on the same machine. What is missed is
# reported as well, and fails.
PROFILE ?= quick
BENCH := go test -count=1 -v -timeout 170m ./test/bench -run TestBench -rounds=$(ROUNDS)
BENCH_REPORT = $(if $(filter full,$(PROFILE)),docs/reports/bench.md docs/scale.md docs/images,out/bench.md out/scale.md out)
.PHONY: bench
bench: assets ## Measure the operator beside bare client-go and its peers (PROFILE=quick or full)
	@failed=0; rm -f $(if $(RESUME),,out/bench.json); \
	$(BENCH) -profile=$(PROFILE) -resume=$(if $(RESUME),true,false) || failed=1; \
	go run ./test/bench/report out/bench.json $(BENCH_REPORT) && exit $$failed

.PHONY: bench-smoke
bench-smoke: assets ## Measure it beside bare client-go making the same writes, in a minute
	$(BENCH) -profile=smoke

.PHONY: bench-peers
bench-peers: assets ## See that every peer of the benchmark does what it is asked, and count its requests
	cd test/bench/peers && go test -count=1 -v -timeout 9m .

##@ Programs
.PHONY: build
build: ## Build the programs into bin/, and for amd64 and arm64 below it
	$(GO_BUILD) -o bin/ ./cmd/...
	for arch in amd64 arm64; do GOOS=linux GOARCH=$$arch $(GO_BUILD) -o bin/linux-$$arch/ ./cmd/...; done

.PHONY: image
image: $(CLUSTER) ## Make images without Docker: bin/operator.tar, bin/center.tar, and bin/web.tar for config/samples
	GOOS=linux $(GO_BUILD) -o bin/linux-$(ARCH)/ ./cmd/operator ./cmd/center
	cd test/cluster && GOOS=linux go build -ldflags "-s -w" -o $(CURDIR)/bin/linux-$(ARCH)/ ./images/web
	$(CLUSTER) image --name=$(IMAGE) bin/linux-$(ARCH)/operator bin/operator.tar
	$(CLUSTER) image --name=$(CENTER_IMAGE) bin/linux-$(ARCH)/center bin/center.tar
	$(CLUSTER) image --name=localhost/web:1 bin/linux-$(ARCH)/web bin/web.tar

.PHONY: dist
dist: ## Write dist/install.yaml: everything an installation needs, in one file
	mkdir -p dist
	$(TOOL) kustomize build config/overlays/cluster-wide | \
	  sed -e 's|image: $(DEV_IMAGE)$$|image: $(IMAGE)|' -e 's|image: $(DEV_CENTER_IMAGE)$$|image: $(CENTER_IMAGE)|' >dist/install.yaml

.PHONY: run
run: ## Run the operator on this machine against the current kubeconfig
	go run ./cmd/operator --leader-elect=false --metrics-address=0

##@ Installation into the test cluster
.PHONY: load
load: $(CLUSTER) ## Give it the images that make image has made
	for image in operator center web; do $(CLUSTER) load --dir=$(DIR) bin/$$image.tar; done

.PHONY: install
install: ## Install the CRDs alone, for an operator that runs elsewhere (make run)
	$(KUBECTL) apply -k config/crd

.PHONY: deploy
deploy: image dist ## Install everything
	$(MAKE) load
	$(KUBECTL) apply -f dist/install.yaml
	for d in operator center; do $(KUBECTL) -n holdfast-system rollout status deployment/holdfast-$$d; done

# Applications go first, while there is an operator that takes them apart in order.
.PHONY: undeploy
undeploy: dist ## Remove it again, CRDs and all applications included
	$(KUBECTL) delete holdfast --all --all-namespaces
	$(KUBECTL) delete -f dist/install.yaml --ignore-not-found

##@ Test cluster
.PHONY: $(CLUSTER)
$(CLUSTER):
	cd test/cluster && go build -o $(CURDIR)/$(CLUSTER) .

.PHONY: assets
assets: $(CLUSTER) ## Build etcd and Kubernetes' control plane once, for API tests
	$(CLUSTER) build --level=control-plane --kubernetes=$(KUBERNETES) --link=bin/k8s

.PHONY: images
images: $(CLUSTER) ## Build all parts and images of the node once
	$(CLUSTER) build --level=node --kubernetes=$(KUBERNETES) --link=bin/k8s

.PHONY: pins
pins: ## Tidy the module files the parts are built from, after a change of version
	for m in test/cluster/parts/*/; do (cd $$m && GOFLAGS= go mod tidy); done

.PHONY: cluster-up
cluster-up: $(CLUSTER) ## Start a cluster (LEVEL=node|control-plane) and write DIR/kubeconfig
	$(CLUSTER) up --level=$(LEVEL) --dir=$(DIR) --port=$(PORT) --kubernetes=$(KUBERNETES) --audit=$(AUDIT) --link=bin/k8s

.PHONY: cluster-down
cluster-down: $(CLUSTER) ## Stop it and remove everything it made
	$(CLUSTER) down --dir=$(DIR)

.PHONY: clean
clean: ## Remove what was built (the shared cache stays)
	rm -rf bin dist out
