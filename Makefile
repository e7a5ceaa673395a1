# Everything a developer does has a target here; CI runs these and nothing else.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
TOOL := hack/tool.sh
MODULES := .
GO_BUILD := CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=$(VERSION)"

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Code
.PHONY: generate
generate: ## Regenerate everything that is generated
	$(TOOL) controller-gen rbac:roleName=holdfast-operator paths=./cmd/... output:rbac:dir=config/rbac
	for m in $(MODULES); do (cd $$m && go mod tidy); done

.PHONY: lint
lint: ## Check style and the import arrows
	for m in $(MODULES); do (cd $$m && $(CURDIR)/$(TOOL) golangci-lint run --config $(CURDIR)/.golangci.yml ./...); done

.PHONY: fmt
fmt: ## Format the code
	for m in $(MODULES); do (cd $$m && $(CURDIR)/$(TOOL) golangci-lint fmt --config $(CURDIR)/.golangci.yml ./...); done

.PHONY: vuln
vuln: ## Look for known vulnerabilities that our code reaches
	hack/vulncheck.sh

.PHONY: verify
verify: ## Regenerate, lint and fail on any difference
	hack/verify-clean.sh $(MAKE) generate
	$(TOOL) kustomize build config/default >/dev/null
	$(MAKE) lint vuln

##@ Tests
.PHONY: test
test: ## Run everything that needs no cluster
	for m in $(MODULES); do (cd $$m && go test -short ./...); done

##@ Programs
.PHONY: build
build: ## Build the programs into bin/, and for amd64 and arm64 below it
	$(GO_BUILD) -o bin/ ./cmd/...
	for arch in amd64 arm64; do GOOS=linux GOARCH=$$arch $(GO_BUILD) -o bin/linux-$$arch/ ./cmd/...; done

.PHONY: run
run: ## Run the operator on this machine against the current kubeconfig
	go run ./cmd/operator --leader-elect=false --metrics-address=0

.PHONY: clean
clean: ## Remove what was built (the shared cache stays)
	rm -rf bin out
