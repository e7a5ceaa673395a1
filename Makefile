# Targets for development. CI runs only these targets.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
# The same for all targets, so that they share Go's build cache.
export CGO_ENABLED := 0
export GOFLAGS := -trimpath -buildvcs=false

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
TOOL := hack/tool.sh
# Go modules of the repository. test/cluster/parts only pin the versions of third-party components.
MODULES := . test/cluster examples/own-kind
GO_BUILD := go build -ldflags "-s -w -X main.version=$(VERSION)"
ARCH := $(shell go env GOARCH)
# The image of the operator in the manifests: make image dist IMAGE=registry.example.com/holdfast/operator:1
# The image of the center is derived from it (.../center:1) unless CENTER_IMAGE is set.
DEV_IMAGE := holdfast/operator:dev
DEV_CENTER_IMAGE := holdfast/center:dev
IMAGE ?= $(DEV_IMAGE)
CENTER_IMAGE ?= $(if $(findstring /operator:,$(IMAGE)),$(subst /operator:,/center:,$(IMAGE)),$(error cannot derive the image of the center from IMAGE; set CENTER_IMAGE=...))

# Number of rounds of a measurement: make bench-smoke ROUNDS=3. 0 means the default of the profile.
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

POLICIES := go run ./engine/policy/generate

##@ Code
.PHONY: generate
generate: ## Regenerate code, manifests, module files and reference pages
	$(TOOL) controller-gen object paths=./api/...
	$(TOOL) controller-gen crd paths=./api/... output:crd:dir=config/crd
	$(TOOL) controller-gen rbac:roleName=holdfast-operator paths=./cmd/... paths=./engine/... paths=./internal/controller/... output:rbac:dir=config/rbac
	$(TOOL) controller-gen rbac:roleName=holdfast-operator paths=./engine/... paths=./internal/controller/... output:rbac:dir=config/rbac/namespaced
	cd examples/own-kind && $(CURDIR)/$(TOOL) controller-gen object crd rbac:roleName=guestbook-operator \
	  paths=. paths=github.com/holdfast-dev/holdfast/engine paths=github.com/holdfast-dev/holdfast/engine/rbac/service \
	  paths=github.com/holdfast-dev/holdfast/engine/rbac/stateful output:crd:dir=config/crd output:rbac:dir=config
	$(POLICIES) -name holdfast -group apps.holdfast.dev -kinds AppService=appservices,AppStack=appstacks,CloudManager=cloudmanagers \
	  -account holdfast-system/holdfast-operator -policies operator-account >config/policy/operator-account.yaml
	$(POLICIES) -name guestbook -group example.com -kinds Guestbook=guestbooks -types Service,Stateful -label-prefix guestbook.example.com \
	  -account holdfast-system/guestbook-operator >examples/own-kind/config/policies.yaml
	hack/update-codegen.sh
	go run ./hack/messages . docs/reference/messages.md
	for m in $(MODULES); do (cd $$m && go mod tidy); done

.PHONY: lint
lint: ## Run golangci-lint, including the import rules
	for m in $(MODULES); do (cd $$m && $(CURDIR)/$(TOOL) golangci-lint run --config $(CURDIR)/.golangci.yml ./...); done

.PHONY: lint-names
lint-names: ## Reject names that contain a word of hack/lintnames/words.txt
	go run ./hack/lintnames hack/lintnames/words.txt .

.PHONY: lint-prose
lint-prose: ## Reject phrases of hack/prose/phrases.txt in docs, messages and comments
	go run ./hack/prose lint hack/prose/phrases.txt .

.PHONY: fmt
fmt: ## Format the Go code
	for m in $(MODULES); do (cd $$m && $(CURDIR)/$(TOOL) golangci-lint fmt --config $(CURDIR)/.golangci.yml ./...); done

.PHONY: vuln
vuln: ## Run govulncheck (VULN=offline if the vulnerability database is not reachable)
	hack/vulncheck.sh $(MODULES)

.PHONY: verify
verify: ## Fail if generated files are out of date or a linter reports a problem
	hack/verify-clean.sh $(MAKE) generate
	for o in cert-manager cluster-wide namespaced; do $(TOOL) kustomize build config/overlays/$$o >/dev/null; done
	$(MAKE) lint-names lint-prose lint vuln

##@ Tests
.PHONY: test
test: ## Run the unit tests
	for m in $(MODULES); do (cd $$m && go test -short ./...); done

.PHONY: cover
cover: ## Check the test coverage of pure packages against hack/coverage.txt
	hack/cover.sh

# Suites that run the operator binary, which is built with the race detector. The tests themselves are not.
STORIES := /internal/controller/|/internal/cli/(doctor|find|verbs|logs)$$|/test/
# Suites that mostly wait run three at a time.
BESIDE := /internal/cli/|/test/(docs|everything|falsepositives|importrules|install|invalidspecs|planaccuracy|policy|schemawalk|watchgaps|withplane)
# Suites that count or measure run one at a time, so that they do not influence each other.
MEASURE := /test/(apibudget|bench|center|database|pluginscale)
# The seed for samples of long suites differs per commit. A failure prints how to reproduce it.
COMMIT_SEED = $(shell echo $$((0x$$(git rev-parse HEAD 2>/dev/null | cut -c1-7 | grep . || echo 1))))
# Repeats up to three failed tests once and lists them in out/flaky.txt. No vet: golangci-lint runs it.
GO_TEST := $(CURDIR)/hack/gotest.sh
.PHONY: test-api
test-api: export HOLDFAST_SEED ?= $(COMMIT_SEED)
test-api: export HOLDFAST_PREBUILT = $(CURDIR)/bin
test-api: assets test-programs ## Run all tests that need an API server, with the race detector
	@echo "samples of long suites: HOLDFAST_SEED=$$HOLDFAST_SEED"; failed=0; \
	group() { printf '\n--- %s\n' "$$1"; shift; local start=$$SECONDS; "$$@" || failed=1; printf -- '--- took %d s\n' $$((SECONDS - start)); }; \
	packages=$$(go list ./...); \
	group "packages, with the race detector" env CGO_ENABLED=1 bin/withplane $(GO_TEST) "$$(grep -vE '$(STORIES)' <<<"$$packages")" -vet=off -race; \
	group "interleavings" $(GO_TEST) ./internal/reconcile -vet=off -run Interleavings; \
	group "suites that mostly wait" $(GO_TEST) "$$(grep -E '$(STORIES)' <<<"$$packages" | grep -E '$(BESIDE)')" -vet=off -p 3; \
	group "own-kind example" env -C examples/own-kind $(GO_TEST) ./... -vet=off; \
	group "stories and faults" $(GO_TEST) "$$(grep -E '$(STORIES)' <<<"$$packages" | grep -vE '$(BESIDE)|$(MEASURE)|/test/e2e')" -vet=off -p 1; \
	group "budgets and latencies" $(GO_TEST) "$$(grep -E '$(MEASURE)' <<<"$$packages")" -vet=off -p 1; \
	exit $$failed

# Build once for all packages, because each build checks a thousand packages for changes.
.PHONY: test-programs
test-programs: ## Build the operator for tests, with and without the race detector
	CGO_ENABLED=1 go build -race -o bin/race/operator ./cmd/operator
	go build -o bin/fast/operator ./cmd/operator
	go build -o bin/withplane ./test/withplane

# The full stories: one-minute field conflicts, restarts at every step, a one-minute outage.
.PHONY: test-long
test-long: assets test-programs ## Run the long tests of all kinds without sampling (25 minutes)
	HOLDFAST_LONG=1 HOLDFAST_PREBUILT=$(CURDIR)/bin go test -count=1 -p 1 -timeout 60m ./cmd/operator ./internal/controller/... ./test/policy ./test/install

# Every long suite in full, with new seeds. Continues after failures and skips suites that have passed with
# the same code: make everything, make everything SUITES=faults,calls.
SUITES ?=
.PHONY: everything
everything: ## Run every long suite in full and write docs/reports/everything.md (5 hours, needs root)
	go run ./test/everything -suites=$(SUITES)

.PHONY: test-e2e
test-e2e: images build dist ## Run the tests of the test cluster and the end-to-end tests on a real node (needs root)
	cd test/cluster && FORMAT=standard-verbose $(GO_TEST) ./... -count=1 -p 1 -parallel 8 -timeout 20m
	FORMAT=standard-verbose $(GO_TEST) ./test/e2e -count=1 -timeout 20m

# Most probes wait for servers that do not answer, so there are more workers than cores, and minimizing is short.
.PHONY: fuzz
fuzz: ## Fuzz the connections to database servers: make fuzz TIME=10m
	go test -timeout 0 -run '^$$' -fuzz FuzzServer -fuzztime $(or $(TIME),10m) -parallel 16 -fuzzminimizetime 10x ./internal/database

.PHONY: test-security
test-security: assets test-programs ## Run the test of each finding of the security review (5 minutes, needs root)
	HOLDFAST_PREBUILT=$(CURDIR)/bin hack/security-tests.sh

# Fault injection: make faults (all plans), make faults PLANS=200 SEED=7 (a sample), make faults REPLAY=<line>
# (one plan), make faults KINDS=crash,travel (some kinds), make faults STEPS=data- (some steps).
PLANS ?=
SEED ?= 1
REPLAY ?=
KINDS ?=
STEPS ?=
WORKERS ?= 10
FAULTS_OUT := $(CURDIR)/out/faults
FAULTS_TEST := HOLDFAST_LONG=1 HOLDFAST_FAULTS_OUT=$(FAULTS_OUT) go test -count=1 -v -p 1 -timeout 4h
.PHONY: faults
faults: assets ## Inject crashes, outages and stale reads at every write of the operator (100 minutes; PLANS=200 for a sample)
	rm -rf $(FAULTS_OUT)
ifneq ($(REPLAY)$(PLANS)$(KINDS)$(STEPS),)
	$(FAULTS_TEST) ./test/faults -run TestPlans -plans=$(or $(PLANS),0) -seed=$(SEED) -kinds='$(KINDS)' -steps='$(STEPS)' -replay='$(REPLAY)' -workers=$(WORKERS)
else
	start=$$(date +%s); failed=0; \
	$(FAULTS_TEST) -parallel 2 ./test/faults -plans=0 -seed=$(SEED) -workers=$(WORKERS) -clean=5 || failed=1; \
	$(FAULTS_TEST) ./test/faults/environment || failed=1; \
	$(FAULTS_TEST) ./internal/reconcile -run Interleav || failed=1; \
	$(FAULTS_TEST) ./internal/controller/appstack -run 'TestDeletion$$' || failed=1; \
	go run ./test/faults/summary $(FAULTS_OUT) $$(( ($$(date +%s) - start) / 60 )) out/faults.json docs/reports/faults.md; \
	exit $$failed
endif

.PHONY: schema-walk
schema-walk: assets ## Set, change and unset every field of the CRD schemas
	go test -count=1 -v -timeout 30m ./test/schemawalk -all -report

.PHONY: misuse
misuse: assets ## Check the message for every invalid spec and write docs/reports/misuse.md
	HOLDFAST_LONG=1 HOLDFAST_MISUSE_OUT=$(CURDIR) go test -count=1 -v -timeout 20m ./test/invalidspecs

# Random sequences of three to eight operations, next to the pairs: make data-matrix SEQUENCES=1000 SEED=7
SEQUENCES ?= 100
.PHONY: data-matrix
data-matrix: assets ## Test all pairs and random sequences of operations on data and write the table in docs/user/data-safety.md
	go test -count=1 -v -timeout 60m ./test/datamatrix -all -report -sequences=$(SEQUENCES) -seed=$(SEED)

# Database tests that are too slow for CI: real servers of every version, real probes and long waits.
ROTATIONS ?= 500
TIMES ?= 10
.PHONY: test-db
test-db: images build dist ## Test password rotation, full disks, crashes, data loss and hangs of real databases (40 minutes, needs root)
	go test -count=1 -v ./internal/rotation ./internal/mariadb/...
	go test -count=1 -v -timeout 40m ./internal/database -rotations=$(ROTATIONS)
	HOLDFAST_LONG=1 go test -count=1 -v -timeout 20m ./test/datamatrix -run TestDatabases -all
	HOLDFAST_LONG=1 go test -count=1 -v -timeout 20m ./test/database
	HOLDFAST_LONG=1 go test -count=1 -v -timeout 20m ./test/e2e -run 'TestDatabase|TestJourneys/DatabasePage'
	go test -count=1 -v -timeout 20m ./test/e2e -run 'TestDatabase$$' -mariadb=10.11
	$(FAULTS_TEST) ./test/faults -run TestPlans -plans=0 -seed=$(SEED) -steps=database- -workers=$(WORKERS)

.PHONY: database-report
database-report: images build dist ## Measure the interruptions that database clients see and write docs/reports/database.md
	go test -count=1 -v -timeout 170m ./test/e2e -run 'TestDatabase$$' -rounds=$(TIMES)
	cp out/database.md docs/reports/database.md

.PHONY: watch-battery
watch-battery: assets ## Interrupt and expire kubectl holdfast watch during 10,000 changes and check its output
	HOLDFAST_LONG=1 go test -count=1 -v -timeout 20m ./test/watchgaps

.PHONY: causes
causes: build images dist ## Provoke every possible cause on a real node and check its diagnosis (needs root, 30 minutes)
	go test -count=1 -v ./internal/explain -run 'TestCauses|TestRefused'
	HOLDFAST_LONG=1 go test -count=1 -v -timeout 30m ./test/e2e -run TestCauses
	go test -count=1 -v -timeout 30m ./test/falsepositives -apps=100

.PHONY: first-day
first-day: images build dist ## Repeat on a real node what went wrong for new users, see docs/dev/first-day.md (needs root, 10 minutes)
	HOLDFAST_LONG=1 go test -count=1 -v -timeout 15m -parallel 6 ./test/e2e -run 'TestFirstDay|TestDatabaseIsDeleted' -deletions=3

.PHONY: test-center
test-center: assets ## Compare the application center with the API server, in full (20 minutes)
	HOLDFAST_LONG=1 go test -count=1 -v -timeout 40m ./test/center -changes=10000
	SSE_FIGURES=1 go test -count=1 -v -run Figures ./internal/center/sse

# The libraries of Flux and Argo CD need other Kubernetes modules than Holdfast, so they are in a module of their own.
.PHONY: gitops
gitops: assets test-programs ## Apply manifests with kubectl, Flux and Argo CD after each verb: no restart, nothing reverted
	cd test/gitops/apply && go build -o $(CURDIR)/bin/gitops-apply .
	HOLDFAST_PREBUILT=$(CURDIR)/bin go test -count=1 -v -timeout 20m ./test/gitops -apply=$(CURDIR)/bin/gitops-apply

.PHONY: plan-truth
plan-truth: assets ## Compare the plans of 100 random edits with the changes of the operator (SEED=2 for others)
	HOLDFAST_LONG=1 go test -count=1 -v -timeout 20m ./test/planaccuracy -seed=$(SEED)

##@ Measurements
.PHONY: calls
calls: assets ## Count the API requests of the operator and compare them with the budget
	go test -count=1 -v -timeout 30m ./test/apibudget -apps=200 -stacks=200 -settle=60s -updates=50 -parallelism=1

.PHONY: plugin-scale
plugin-scale: assets ## Measure status, why and tree with 5,000 unrelated pods, and count their requests
	HOLDFAST_LONG=1 go test -count=1 -v -timeout 20m ./test/pluginscale

.PHONY: center-memory
center-memory: assets ## Measure the memory of the center with 20,000 objects and 50,000 ConfigMaps, compared with client-go
	HOLDFAST_LONG=1 go test -count=1 -v -timeout 30m ./test/center -run TestMemory

# make bench PROFILE=full (150 minutes) writes docs/reports/bench.md; a quick run only writes to out/. RESUME=1
# continues an earlier run from out/, for the same commit on the same machine. Missed targets are reported and
# fail the run.
PROFILE ?= quick
BENCH := go test -count=1 -v -timeout 170m ./test/bench -run TestBench -rounds=$(ROUNDS)
BENCH_REPORT = $(if $(filter full,$(PROFILE)),docs/reports/bench.md docs/scale.md docs/images,out/bench.md out/scale.md out)
.PHONY: bench
bench: assets ## Compare the operator with plain client-go and other operators (PROFILE=quick or full)
	@failed=0; rm -f $(if $(RESUME),,out/bench.json); \
	$(BENCH) -profile=$(PROFILE) -resume=$(if $(RESUME),true,false) || failed=1; \
	go run ./test/bench/report out/bench.json $(BENCH_REPORT) && exit $$failed

.PHONY: bench-smoke
bench-smoke: assets ## Compare the operator with plain client-go for the same writes (1 minute)
	$(BENCH) -profile=smoke

.PHONY: bench-peers
bench-peers: assets ## Check that each compared operator works, and count its requests
	cd test/bench/peers && go test -count=1 -v -timeout 9m .

##@ Programs
.PHONY: build
build: ## Build the binaries for this machine into bin/
	$(GO_BUILD) -o bin/ ./cmd/...

.PHONY: release
release: ## Build the binaries for amd64 and arm64 into bin/linux-ARCH/
	for arch in amd64 arm64; do GOOS=linux GOARCH=$$arch $(GO_BUILD) -o bin/linux-$$arch/ ./cmd/...; done

.PHONY: image
image: $(CLUSTER) ## Build images without Docker: bin/operator.tar, bin/center.tar, and bin/web.tar for config/samples
	GOOS=linux $(GO_BUILD) -o bin/linux-$(ARCH)/ ./cmd/operator ./cmd/center
	cd test/cluster && GOOS=linux go build -ldflags "-s -w" -o $(CURDIR)/bin/linux-$(ARCH)/ ./images/web
	$(CLUSTER) image --name=$(IMAGE) bin/linux-$(ARCH)/operator bin/operator.tar
	$(CLUSTER) image --name=$(CENTER_IMAGE) bin/linux-$(ARCH)/center bin/center.tar
	$(CLUSTER) image --name=localhost/web:1 bin/linux-$(ARCH)/web bin/web.tar

DIST ?= dist
.PHONY: dist
dist: ## Write dist/install.yaml with all manifests
	mkdir -p $(DIST)
	$(TOOL) kustomize build config/overlays/cluster-wide | \
	  sed -e 's|image: $(DEV_IMAGE)$$|image: $(IMAGE)|' -e 's|image: $(DEV_CENTER_IMAGE)$$|image: $(CENTER_IMAGE)|' \
	    -e 's|app.kubernetes.io/version: dev$$|app.kubernetes.io/version: "$(VERSION)"|' >$(DIST)/install.yaml

.PHONY: run
run: ## Run the operator on this machine against the current kubeconfig
	go run ./cmd/operator --leader-elect=false --metrics-address=0

##@ Installation into the test cluster
.PHONY: load
load: $(CLUSTER) ## Load the images of make image into the test cluster
	for image in operator center web; do $(CLUSTER) load --dir=$(DIR) bin/$$image.tar; done

.PHONY: install
install: ## Install only the CRDs, for an operator that runs outside the cluster (make run)
	$(KUBECTL) apply -k config/crd

.PHONY: deploy
deploy: image dist ## Install the CRDs, the operator and the center
	$(MAKE) load
	$(KUBECTL) apply -f dist/install.yaml
	for d in operator center; do $(KUBECTL) -n holdfast-system rollout status deployment/holdfast-$$d; done

# Delete applications first, because the running operator deletes their objects in order.
.PHONY: undeploy
undeploy: dist ## Uninstall, including the CRDs and all applications
	$(KUBECTL) delete holdfast --all --all-namespaces
	$(KUBECTL) delete -f dist/install.yaml --ignore-not-found

##@ Test cluster
.PHONY: $(CLUSTER)
$(CLUSTER):
	cd test/cluster && go build -o $(CURDIR)/$(CLUSTER) .

.PHONY: assets
assets: $(CLUSTER) ## Build etcd and the Kubernetes control plane for API tests
	$(CLUSTER) build --level=control-plane --kubernetes=$(KUBERNETES) --link=bin/k8s

.PHONY: images
images: $(CLUSTER) ## Build all components and images of the node
	$(CLUSTER) build --level=node --kubernetes=$(KUBERNETES) --link=bin/k8s

.PHONY: pins
pins: ## Run go mod tidy in test/cluster/parts after a version change
	for m in test/cluster/parts/*/; do (cd $$m && GOFLAGS= go mod tidy); done

.PHONY: cluster-up
cluster-up: $(CLUSTER) ## Start a cluster (LEVEL=node|control-plane) and write DIR/kubeconfig
	$(CLUSTER) up --level=$(LEVEL) --dir=$(DIR) --port=$(PORT) --kubernetes=$(KUBERNETES) --audit=$(AUDIT) --link=bin/k8s

.PHONY: cluster-down
cluster-down: $(CLUSTER) ## Stop the test cluster and delete its files
	$(CLUSTER) down --dir=$(DIR)

.PHONY: clean
clean: ## Delete build output (keeps the shared cache)
	rm -rf bin dist out
