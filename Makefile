# Every target is one or a few commands that can be typed by hand. Only Go and make
# are needed; tools are built from the modules in tools/ into bin/.
# CI runs .ci/run, which calls these targets and knows nothing else.

GO         ?= go
BIN        := $(CURDIR)/bin
TAGS       := invariants
PKG        ?= ./...
# The numbered cases have their own target; everything else of the module is here.
ALL        = $(filter-out %/internal/cases,$(shell $(GO) list ./...))
TESTFLAGS  ?=
# Tests of a package that go on at a time. Those that can mostly wait, for elections and timeouts: docs/testing.md.
PARALLEL   ?= 4
# Packages of one goroutine, which internal/archtest makes sure of: no race can be in them.
SINGLE     := amqp/wire argument catalog clock cluster/placement definitions deploy/image deploy/release id internal/archtest \
  internal/cases/report internal/mutants internal/retest internal/storesim message policy quorumq/session quota
# Of this package only these tests have a second goroutine. With the race detector the others take minutes.
PARTLY     := quorumq
PARTLY_RUN := AnotherGoroutine
# Where most goroutines meet: .ci/run looks for races in these, and make deep in all.
RACE_FIRST := amqp broker client cluster/forwarding cluster/gateway cluster/leader cluster/liveness cluster/membership \
  cluster/metadata cluster/replica cluster/transport deadletter grpcapi quorumq raftfsm wal
SEED       ?= 1
SCALE      ?= 10000
SEEDS      ?= 1000
FUZZTIME   ?= 30s
FAILOVERS  ?= 3000
CHAOS_TIME ?= 1h
STRESS_TIME ?= 15m
IMAGE      ?= quorate/quorate:dev
# Programs report the number in the file VERSION, and the commit as build metadata.
COMMIT     ?= $(shell git describe --exclude '*' --always --abbrev=7 --dirty 2>/dev/null)
VERSION    := $(shell cat VERSION)$(addprefix +,$(COMMIT))
LDFLAGS    := -s -w -X github.com/quorate/quorate.commit=$(COMMIT)
GOBUILD    := CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)'

# Tests compile what is shipped, with its flags: each package once, and not once for the binaries and again for tests.
export GOFLAGS     += -trimpath
export CGO_ENABLED ?= 0
# What go test vets by itself is part of what the target vet does.
GOTEST     := $(GO) test -vet=off
# What go vet looks for is part of what golangci-lint does (govet): with LINTED=1 targets leave it out.
VET        := $(if $(LINTED),:,$(GO) vet)
# But the race detector is C.
race stress: export CGO_ENABLED := 1

.DEFAULT_GOAL := check
.DELETE_ON_ERROR:

##@ Every day

.PHONY: check
check: ## build, vet and short tests: under a minute
	$(GO) build ./...
	$(GO) vet -tags $(TAGS) ./...
	$(GO) test -short -tags $(TAGS) $(PKG)

# With BUILT=1 they are there already.
.PHONY: build
build: ## bin/quorate, bin/quoratectl and bin/quickstart, static
	$(if $(BUILT),,$(GOBUILD) -o $(BIN)/quorate ./cmd/node)
	$(if $(BUILT),,$(GOBUILD) -o $(BIN)/quoratectl ./cmd/ctl)
	$(if $(BUILT),,$(GOBUILD) -o $(BIN)/quickstart ./cmd/quickstart)

.PHONY: quickstart
quickstart: build ## three processes on loopback show the whole idea
	$(BIN)/quickstart $(ARGS)

# What .ci/run runs one by one, to run again what failed.
TESTS := test-main test-plain k8s-check operator-check test-bench conformance-short cases cases-amqp

.PHONY: test
test: vet $(TESTS) ## everything: all tests of all modules, then the numbered cases over gRPC and AMQP

.PHONY: test-targets
test-targets: ## the targets that make test runs after vet
	@echo $(TESTS)

.PHONY: vet
vet: ## go vet on the main module
	$(GO) vet -tags $(TAGS) ./...

.PHONY: test-main
test-main: build ## all tests of the main module, with real processes
	$(GOTEST) -tags $(TAGS) -parallel $(PARALLEL) $(TESTFLAGS) $(ALL)

.PHONY: test-plain
test-plain: ## what only a build without checks of invariants can show
	$(GOTEST) -run 'AllocatesNothing' $(TESTFLAGS) ./quorumq

.PHONY: k8s-check
k8s-check: ## the chart, the manifests, alert rules and boards: rendered, decoded strictly, compared
	cd deploy/k8s/test && $(VET) ./... && $(GOTEST) $(TESTFLAGS) ./...

.PHONY: operator-check
operator-check: ## builds, vets and tests the operator, short
	cd cmd/operator && $(GO) build -ldflags '-s -w' ./... && $(VET) ./... && $(GOTEST) -short $(TESTFLAGS) ./...

.PHONY: test-bench
test-bench: ## builds and tests the bench module
	cd bench && $(VET) ./... && $(GOTEST) -short $(TESTFLAGS) ./...

.PHONY: conformance-short
conformance-short: build ## the AMQP scenarios through one client over three nodes, and its examples
	cd examples/amqp && $(VET) ./...
	cd conformance && $(VET) ./... && $(GOTEST) -short -parallel $(PARALLEL) $(TESTFLAGS) ./...

.PHONY: cases
cases: build ## the numbered black-box cases, a line each
	@$(GOTEST) -json -count=1 -tags $(TAGS) -run '^TestT[0-9]{3}$$' $(TESTFLAGS) ./internal/cases | $(GO) run ./internal/cases/report

.PHONY: cases-amqp
cases-amqp: build ## the same cases through an AMQP client, as far as AMQP has a form for them
	@QUORATE_CASES_OVER=amqp $(GOTEST) -json -count=1 -tags $(TAGS) -run '^TestT[0-9]{3}$$' $(TESTFLAGS) ./internal/cases | $(GO) run ./internal/cases/report

##@ Deeper checks

.PHONY: conformance
conformance: build ## ordinary AMQP clients on this broker and on RabbitMQ; ARGS="-clients pika -only '^tx'"
	cd conformance && $(GO) vet ./... && $(GO) run ./run $(ARGS)

# What judges the page's accessibility, as it was released to npm.
AXE     := 4.14.1
AXE_SUM := 29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c

# What needs neither, such as the cases of the HTTP API in management/rest and the pages without a browser in
# management/page, runs with make test.
.PHONY: management-test
management-test: $(BIN)/rabbitmqadmin $(BIN)/axe-$(AXE).min.js chromium ## the HTTP API with RabbitMQ's rabbitmqadmin, and the web page in a browser; needs Debian, python3 and npm
	QUORATE_RABBITMQADMIN=$< QUORATE_CHROMIUM=$$(command -v chromium) QUORATE_AXE=$(BIN)/axe-$(AXE).min.js \
	  $(GOTEST) -count=1 -timeout 40m -tags $(TAGS) -parallel $(PARALLEL) $(TESTFLAGS) ./management/admintest ./management/browsertest

.PHONY: shots
shots: $(BIN)/axe-$(AXE).min.js chromium ## takes the pictures of docs/management.md anew; needs Debian and npm
	QUORATE_CHROMIUM=$$(command -v chromium) QUORATE_AXE=$(BIN)/axe-$(AXE).min.js \
	  $(GOTEST) -count=1 -timeout 10m $(TESTFLAGS) -run '^TestShots$$' ./management/browsertest -args -shots $(CURDIR)/docs/img

.PHONY: monitoring-test
monitoring-test: $(BIN)/promtool ## alert rules against the series of their tests, by Prometheus's own promtool; needs Debian
	$(BIN)/promtool check rules deploy/prometheus/rules.yaml deploy/prometheus/operator-rules.yaml
	$(BIN)/promtool test rules deploy/prometheus/rules_test.yaml deploy/prometheus/operator-rules_test.yaml

.PHONY: fetch
fetch: chromium $(BIN)/promtool $(BIN)/rabbitmqadmin $(BIN)/axe-$(AXE).min.js ## what management-test and monitoring-test take from Debian and npm

# Programs alone, out of Debian's packages, which are not installed: debian PACKAGE unpacks one into bin/PACKAGE.d.
define debian
	rm -rf $(BIN)/$(1).d && mkdir -p $(BIN)/$(1).d
	cd $(BIN)/$(1).d && { apt-get download -q $(1) || { apt-get update -q && apt-get download -q $(1); }; }
	cd $(BIN)/$(1).d && dpkg-deb -x $(1)_*.deb .
endef

$(BIN)/promtool:
	$(call debian,prometheus)
	cp $(BIN)/prometheus.d/usr/bin/promtool $@
	rm -rf $(BIN)/prometheus.d

$(BIN)/rabbitmqadmin:
	$(call debian,rabbitmq-server)
	cp $(BIN)/rabbitmq-server.d/usr/lib/rabbitmq/lib/rabbitmq_server-*/plugins/rabbitmq_management-*/priv/www/cli/rabbitmqadmin $@
	rm -rf $(BIN)/rabbitmq-server.d

# needs PROGRAM,PACKAGE installs one of Debian's packages if the program is missing and the user may.
define needs
	@command -v $(1) >/dev/null || apt-get install -q -y --no-install-recommends $(2) || \
	  { apt-get update -q && apt-get install -q -y --no-install-recommends $(2); }
endef

# Debian's browser.
.PHONY: chromium
chromium:
	$(call needs,chromium,chromium)

$(BIN)/axe-%.min.js:
	rm -rf $(BIN)/npm && mkdir -p $(BIN)/npm
	cd $(BIN)/npm && npm pack --silent axe-core@$* && tar -xzf axe-core-$*.tgz package/axe.min.js
	cd $(BIN)/npm && echo '$(AXE_SUM)  package/axe.min.js' | sha256sum -c
	mv $(BIN)/npm/package/axe.min.js $@
	rm -rf $(BIN)/npm

# Kubernetes for tests, from source; the API server knows its version from the linker. Without root nothing is installed.
KUBE         := k8s.io/kubernetes
KUBE_VERSION  = $(shell awk '{ for (i = 1; i < NF; i++) if ($$i == "$(KUBE)") print $$(i + 1) }' tools/kube/go.mod)
KUBE_LDFLAGS  = -s -w -X k8s.io/component-base/version.gitVersion=$(KUBE_VERSION) \
  -X k8s.io/component-base/version.gitMajor=$(word 1,$(subst ., ,$(KUBE_VERSION:v%=%))) \
  -X k8s.io/component-base/version.gitMinor=$(word 2,$(subst ., ,$(KUBE_VERSION:v%=%)))

# Each test has a limit of its own; together these are over two hours. Packages come one after another: each has the processors
# busy with a Kubernetes or with API servers, and what it measures and waits for is for one of them.
.PHONY: e2e-k8s
e2e-k8s: build operator kube nft ## the deployment and the operator on a real Kubernetes, whose pods are processes; needs Linux and root; ARGS="-run TestDevOverlay"
	cd deploy/k8s/e2e && $(GO) vet ./... && $(GOTEST) -p 1 -count=1 -timeout 140m -v $(TESTFLAGS) $(ARGS) ./...
	cd cmd/operator && KUBEBUILDER_ASSETS=$(BIN) $(GO) test -p 1 -count=1 -timeout 30m $(TESTFLAGS) $(ARGS) ./...

.PHONY: kube
kube: $(BIN)/kubelet $(BIN)/coredns ## etcd, the programs of Kubernetes and CoreDNS, for tests; minutes when they are first built

$(BIN)/kubelet: tools/kube/go.mod tools/kube/go.sum
	@mkdir -p $(BIN)
	cd tools/kube && $(GO) build -ldflags '$(KUBE_LDFLAGS)' -o $(BIN)/etcd go.etcd.io/etcd/server/v3
	cd tools/kube && $(GO) build -ldflags '$(KUBE_LDFLAGS)' -o $(BIN)/ $(addprefix $(KUBE)/cmd/,kube-apiserver kube-controller-manager \
	  kube-proxy kube-scheduler kubectl kubelet)
	@touch $@

$(BIN)/coredns: deploy/k8s/e2e/coredns/main.go deploy/k8s/e2e/coredns/go.mod deploy/k8s/e2e/coredns/go.sum
	@mkdir -p $(BIN)
	cd deploy/k8s/e2e/coredns && $(GO) build -ldflags '-s -w' -o $@ .

# By which kube-proxy leads services to pods.
.PHONY: nft
nft:
	$(call needs,nft,nftables)

.PHONY: race
race: RACED = $(shell $(GO) list $(PKG))
race: WHOLE = $(filter-out $(patsubst %,github.com/quorate/quorate/%,$(SINGLE) $(PARTLY)),$(RACED))
race: PART  = $(filter $(PARTLY:%=github.com/quorate/quorate/%),$(RACED))
race: ## short tests with the race detector, of packages with more than one goroutine
	$(if $(PART),$(RACETEST) -run $(PARTLY_RUN) $(TESTFLAGS) $(PART))
	$(if $(WHOLE),$(RACETEST) $(TESTFLAGS) $(WHOLE))

.PHONY: race-first
race-first: ## the packages in which .ci/run looks for races
	@echo $(RACE_FIRST:%=./%)

RACETEST = GORACE='atexit_sleep_ms=100 '$$GORACE $(GOTEST) -race -short -tags $(TAGS) -parallel $(PARALLEL)

.PHONY: lint
lint: deadcode shellcheck $(BIN)/golangci-lint ## golangci-lint with .golangci.yml, deadcode, and shellcheck where it is
	$(BIN)/golangci-lint run ./...
	cd deploy/k8s/test && $(BIN)/golangci-lint run --config $(CURDIR)/.golangci.yml ./...
	cd cmd/operator && $(BIN)/golangci-lint run --config $(CURDIR)/.golangci.yml ./...
	cd deploy/k8s/e2e && $(BIN)/golangci-lint run --config $(CURDIR)/.golangci.yml ./...
	cd bench && $(BIN)/golangci-lint run --config $(CURDIR)/.golangci.yml ./...
	cd conformance && $(BIN)/golangci-lint run --config $(CURDIR)/.golangci.yml ./...
	cd examples/amqp && $(BIN)/golangci-lint run --config $(CURDIR)/.golangci.yml ./...

# Debian's package shellcheck, which .ci/run installs.
.PHONY: shellcheck
shellcheck: ## scripts that users run, by shellcheck
	@if command -v shellcheck >/dev/null; then shellcheck deploy/k8s/smoke.sh deploy/packages/*.sh .ci/run; \
	  else echo "shellcheck: NOT CHECKED: it is not installed"; fi

# The public client may have what nothing here calls. The operator, another module, uses what the main module has for it.
.PHONY: deadcode
deadcode: $(BIN)/deadcode ## functions of the main module and the operator that no program and no test reaches; there must be none
	@rm -f $(BIN)/deadcode.work && GOWORK=$(BIN)/deadcode.work $(GO) work init . ./cmd/operator
	@GOWORK=$(BIN)/deadcode.work $(BIN)/deadcode -test -tags $(TAGS) ./... ./cmd/operator/... >$(BIN)/deadcode.log
	@! grep -v '^client/' $(BIN)/deadcode.log

# The database is on the internet. VULNDB may name a mirror. Without one nothing is checked, which is a
# failure of the target: .ci/run reports it as skipped.
VULNDB ?= https://vuln.go.dev

.PHONY: vuln
vuln: $(BIN)/govulncheck ## known vulnerabilities in what the programs call; needs VULNDB
	@mkdir -p dist
	@if $(BIN)/govulncheck -db $(VULNDB) -tags $(TAGS) ./... >dist/vuln.log 2>&1; then cat dist/vuln.log; else \
	  cat dist/vuln.log; \
	  if grep -q 'fetching vulnerabilities' dist/vuln.log; then \
	    echo "vuln: NOT CHECKED: the database of vulnerabilities at $(VULNDB) cannot be reached; run it where it can, or set VULNDB to a mirror"; fi; \
	  exit 1; fi

.PHONY: fmt
fmt: $(BIN)/golangci-lint ## formats code and groups imports
	$(BIN)/golangci-lint fmt ./...

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME
	$(GO) run ./internal/fuzzall -time $(FUZZTIME) -tags $(TAGS)

.PHONY: deep
deep: ## what .ci/run leaves out for its time: all of race, every fuzz target for FUZZTIME, a whole release built twice, and nodes' memory beside the committed table
	$(MAKE) race
	$(MAKE) fuzz
	$(MAKE) release-test
	$(MAKE) bench-guard ARGS="-only memory"

.PHONY: stress-links
stress-links: ## FAILOVERS changes of leaders under faults decided by SEED
	QUORATE_STRESS_FAILOVERS=$(FAILOVERS) QUORATE_STRESS_SEED=$(SEED) $(GO) test -v -count=1 -timeout 0 -tags $(TAGS) -run TestStress ./cluster/liveness

.PHONY: chaos
chaos: build ## nodes under a seeded schedule of all faults for CHAOS_TIME, history checked; ARGS="--target netns"
	$(BIN)/quoratectl chaos run --seed $(SEED) --time $(CHAOS_TIME) $(ARGS)

# Mixed, and few queues: after a fault that takes a disk away each of them gets its members anew.
CHAOS_CI = crashes,delayed,priorities,producers,publish,retry,retry-loop,single-active,transactions

.PHONY: chaos-ci
chaos-ci: build ## every fault that this machine can have, once, within 5 minutes, into dist/chaos-ci; fails if one was not felt; ARGS="--target processes" without root
	rm -rf dist/chaos-ci
	$(BIN)/quoratectl chaos run --target netns --each --strict --seed 1 --workloads $(CHAOS_CI) --time 5m --max-pause -1 \
	  --other $(BIN)/quorate --out dist/chaos-ci $(ARGS)

.PHONY: chaos-soak
chaos-soak: build ## the same, seed after seed until interrupted; what failing runs left is kept in dist/soak
	$(BIN)/quoratectl chaos run --soak --out dist/soak --seed $(SEED) --time 10m $(ARGS)

.PHONY: sim
sim: ## SEEDS seeds from SEED on of the simulation in one thread, of groups whose power is cut, and of the schedules of faults of real nodes
	$(GO) test -v -count=1 -timeout 0 -tags $(TAGS) ./internal/sim ./internal/storesim ./internal/groupsim ./internal/nodesim -args -seed $(SEED) -seeds $(SEEDS)

.PHONY: mutants
mutants: ## plants faults, one at a time, and looks for each by tests, simulation and real processes; ARGS="-only NAME -ways unit,sim -write"
	$(GO) run ./internal/mutants $(ARGS)

.PHONY: stress
stress: build ## repeats what looks for rare faults for STRESS_TIME, with seeds from SEED on
	$(GO) run ./internal/stress -time $(STRESS_TIME) -seed $(SEED)

.PHONY: rewrite
rewrite: ## rewrites expected output of scripts, the tables of packages and arguments, and what is made from the chart
	@for d in $$(grep -rl --include='*_test.go' cockroachdb/datadriven . | xargs -n1 dirname | sort -u); do \
	  $(GO) test -tags $(TAGS) $$d -args -rewrite || exit 1; \
	done
	$(GO) test ./argument -args -rewrite
	$(GO) test ./definitions -args -rewrite
	$(GO) test ./internal/archtest -args -rewrite
	cd deploy/k8s/test && $(GO) test ./... -args -rewrite

.PHONY: bench
bench: build ## figures of packages and of whole systems, under 3 minutes; ARGS="-only queue,group,log,end"
	cd bench && $(GO) run . $(ARGS)

.PHONY: bench-engine
bench-engine: build ## the replication engine against its aims; ARGS="-only ratio,held", -quick, -profile DIR
	cd bench && $(GO) build -o $(BIN)/bench . && $(BIN)/bench -engine -limit 40m $(ARGS)

.PHONY: bench-deadletter
bench-deadletter: build ## dead letters at least once against their aims, some four minutes; ARGS="-only move,wait", -quick
	cd bench && $(GO) build -o $(BIN)/bench . && $(BIN)/bench -deadletter -limit 20m $(ARGS)

.PHONY: bench-backup
bench-backup: build ## backups beside publishers against their aims, about two minutes; ARGS="-quick", -messages N
	cd bench && $(GO) build -o $(BIN)/bench . && $(BIN)/bench -backup -limit 20m $(ARGS)

.PHONY: bench-restart
bench-restart: build ## memory of nodes at rest, and pauses of clients while nodes are restarted, against their aims, about two minutes; ARGS=-quick
	cd bench && $(GO) build -o $(BIN)/bench . && $(BIN)/bench -restart $(ARGS)

.PHONY: bench-behaviour
bench-behaviour: ## routing, fan-out, messages that wait, and what SCALE queues cost to import, to change and asleep
	$(GO) test -run '^$$' -bench 'Route' -benchmem ./catalog
	$(GO) test -run '^$$' -bench 'FanOut' ./internal/testcluster
	$(GO) test -run '^$$' -bench 'PolicyChange' -benchmem ./broker
	$(GO) test -run '^$$' -bench 'Delayed$$|PublishWhileDue' -benchmem -benchtime 1x ./quorumq
	QUORATE_SCALE_GROUPS=$(SCALE) $(GO) test -run '^$$' -bench 'ManyQueues' -benchtime 1x -timeout 60m ./internal/testcluster

.PHONY: bench-peers
bench-peers: build ## over AMQP beside RabbitMQ and NATS JetStream, where they are installed; ARGS="-quick", -rabbitmq DIR, -nats FILE
	cd bench && $(GO) build -o $(BIN)/bench . && $(BIN)/bench -peers -limit 20m $(ARGS)

.PHONY: bench-turns
bench-turns: build ## this build and another one by turns under the workloads of bench-aims; ARGS="-against /opt/old/quorate -turns 3"
	cd bench && $(GO) build -o $(BIN)/bench . && $(BIN)/bench -limit 60m $(ARGS)

.PHONY: bench-aims
bench-aims: build ## what a message costs over both protocols against its aims, about two minutes; ARGS=-quick
	cd bench && $(GO) build -o $(BIN)/bench . && $(BIN)/bench -aims $(ARGS)

.PHONY: bench-guard
bench-guard: build ## what a message costs and what nodes have in memory, beside the committed table, about four minutes; ARGS=-write makes the table anew, "-only memory"
	cd bench && $(GO) build -o $(BIN)/bench . && $(BIN)/bench -guard $(ARGS)

.PHONY: cover
cover: ## coverage of short tests, by function
	@mkdir -p dist
	$(GO) test -short -tags $(TAGS) -coverprofile dist/cover.out $(PKG)
	$(GO) tool cover -func dist/cover.out | tail -n 1

.PHONY: golden
golden: ## data directory and backup of this build's version, which later builds have to read: docs/testing.md; ARGS="-build FILE -reads N"
	$(GO) test -count=1 -v -tags $(TAGS) -run 'TestWriteGolden$$' ./internal/upgrade -args -write $(ARGS)

##@ Generated code and tools

.PHONY: gen
gen: tools $(BIN)/buf ## formats, lints and generates the wire APIs and AMQP's methods
	$(BIN)/buf format -w
	$(BIN)/buf lint
	$(BIN)/buf generate
	cd tools/amqpgen && $(GO) mod download && $(GO) run . -out ../../amqp/wire/methods.go \
	  -spec "$$($(GO) list -m -f '{{.Dir}}' github.com/rabbitmq/amqp091-go)/spec/amqp0-9-1.stripped.extended.xml"

.PHONY: operator-gen
operator-gen: $(BIN)/controller-gen ## the operator's deep copies, custom resource definitions and roles, from cmd/operator
	cd cmd/operator && $(BIN)/controller-gen object paths=./api/... \
	  crd paths=./api/... output:crd:dir=$(CURDIR)/deploy/k8s/operator/crds \
	  rbac:roleName=quorate-operator,fileName=cluster_role.yaml paths=./... output:rbac:dir=$(CURDIR)/deploy/k8s/operator/rbac

.PHONY: tools
tools: $(BIN)/protoc-gen-go $(BIN)/protoc-gen-go-grpc ## plugins of the generator

$(BIN)/protoc-gen-go: tools/go.mod tools/go.sum
	@mkdir -p $(BIN)
	cd tools && $(GO) build -ldflags '-s -w' -o $(BIN)/ tool
	@touch $(BIN)/protoc-gen-go $(BIN)/protoc-gen-go-grpc

$(BIN)/protoc-gen-go-grpc: $(BIN)/protoc-gen-go

$(BIN)/buf: tools/buf/go.mod tools/buf/go.sum
	@mkdir -p $(BIN)
	cd tools/buf && $(GO) build -ldflags '-s -w' -o $(BIN)/ tool
	@touch $@

$(BIN)/golangci-lint: tools/golangci/go.mod tools/golangci/go.sum
	@mkdir -p $(BIN)
	cd tools/golangci && $(GO) build -ldflags '-s -w' -o $(BIN)/ tool
	@touch $@

$(BIN)/controller-gen: tools/controllergen/go.mod tools/controllergen/go.sum
	@mkdir -p $(BIN)
	cd tools/controllergen && $(GO) build -ldflags '-s -w' -o $(BIN)/ tool
	@touch $@

$(BIN)/deadcode: tools/deadcode/go.mod tools/deadcode/go.sum
	@mkdir -p $(BIN)
	cd tools/deadcode && $(GO) build -ldflags '-s -w' -o $(BIN)/ tool
	@touch $@

$(BIN)/cyclonedx-gomod: tools/cyclonedx/go.mod tools/cyclonedx/go.sum
	@mkdir -p $(BIN)
	cd tools/cyclonedx && $(GO) build -ldflags '-s -w' -o $(BIN)/ tool
	@touch $@

$(BIN)/nfpm: tools/nfpm/go.mod tools/nfpm/go.sum
	@mkdir -p $(BIN)
	cd tools/nfpm && $(GO) build -ldflags '-s -w' -o $(BIN)/ tool
	@touch $@

$(BIN)/govulncheck: tools/govulncheck/go.mod tools/govulncheck/go.sum
	@mkdir -p $(BIN)
	cd tools/govulncheck && $(GO) build -ldflags '-s -w' -o $(BIN)/ tool
	@touch $@

##@ Shipping

.PHONY: image
image: build ## dist/image.tar, an OCI image from scratch, without a daemon
	@mkdir -p dist
	$(GO) run ./deploy/image -binary $(BIN)/quorate -ctl $(BIN)/quoratectl -name $(IMAGE) -version $(VERSION) -out dist/image.tar

OPERATOR_IMAGE ?= quorate/quorate-operator:dev

.PHONY: operator
operator: ## bin/quorate-operator, static
	cd cmd/operator && $(GOBUILD) -o $(BIN)/quorate-operator .

.PHONY: operator-image
operator-image: operator ## dist/operator-image.tar, the operator's OCI image
	@mkdir -p dist
	$(GO) run ./deploy/image -operator $(BIN)/quorate-operator -name $(OPERATOR_IMAGE) -version $(VERSION) -out dist/operator-image.tar

# What each binary is made of, in dist/release: CycloneDX documents beside the binaries, their
# checksums and their provenance. Nothing in it is of the time or the machine.
RELEASE   := dist/release
PLATFORMS ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64

# The binaries of a program for Linux, with commas between: released PROGRAM.
comma    := ,
empty    :=
space    := $(empty) $(empty)
released  = $(subst $(space),$(comma),$(patsubst linux/%,$(RELEASE)/$(1)-linux-%,$(filter linux/%,$(PLATFORMS))))

.PHONY: release
release: $(BIN)/cyclonedx-gomod ## dist/release: binaries of PLATFORMS, packages, an image, SBOMs, checksums, provenance; ARGS=-dirty to try it out
	$(MAKE) --no-print-directory release-files
	set -e; for p in $(PLATFORMS); do for b in quorate quoratectl; do \
	  out=$(RELEASE)/$$b-$${p%/*}-$${p#*/}; \
	  $(BIN)/cyclonedx-gomod bin -json -noserial -notimestamp -version $(VERSION) -output $$out.cdx.json $$out; \
	done; done
	$(GO) run ./deploy/release -dir $(RELEASE) -version $(VERSION) -commit "$$(git rev-parse HEAD)" \
	  -flags "CGO_ENABLED=0 -trimpath -buildvcs=false -ldflags '$(LDFLAGS)'" $(ARGS)

# What a release installs: its binaries, packages and image.
.PHONY: release-files
release-files:
	rm -rf $(RELEASE)
	mkdir -p $(RELEASE)
	set -e; for p in $(PLATFORMS); do for b in node:quorate ctl:quoratectl; do \
	  GOOS=$${p%/*} GOARCH=$${p#*/} $(GOBUILD) -buildvcs=false -o $(RELEASE)/$${b#*:}-$${p%/*}-$${p#*/} ./cmd/$${b%:*}; \
	done; done
	$(MAKE) --no-print-directory packages
	$(if $(call released,quorate),$(GO) run ./deploy/image -binary $(call released,quorate) -ctl $(call released,quoratectl) \
	  -name quorate/quorate:$(shell cat VERSION) -version $(VERSION) -out $(RELEASE)/quorate-image.tar)

# A release for this machine's platform alone, which is enough to find what depends on the place of the build.
HERE = PLATFORMS=linux/$(shell $(GO) env GOARCH)

.PHONY: release-test
release-test: ## builds a release for this machine twice, under circumstances that differ, and compares all files; needs Linux
	$(MAKE) --no-print-directory release RELEASE=dist/release-test $(HERE) ARGS=-dirty
	deploy/packages/again.sh dist/release-test release $(HERE) ARGS=-dirty

# Debian and RPM packages of the same binaries, with manual pages and completions. Their files bear the time of the
# commit, so that another build of it gives the same bytes.
.PHONY: packages
packages: build $(BIN)/nfpm ## dist/release: deb and rpm of each Linux platform, from the binaries of `make release`
	rm -rf $(RELEASE)/man $(RELEASE)/completion
	mkdir -p $(RELEASE)/completion
	export SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct); set -e; \
	for p in quorate quoratectl; do $(BIN)/$$p manual $(RELEASE)/man; done; gzip -n -9 $(RELEASE)/man/*.1; \
	$(BIN)/quoratectl completion bash > $(RELEASE)/completion/quoratectl.bash; \
	$(BIN)/quoratectl completion zsh > $(RELEASE)/completion/_quoratectl; \
	$(BIN)/quoratectl completion fish > $(RELEASE)/completion/quoratectl.fish; \
	for p in $(filter linux/%,$(PLATFORMS)); do for kind in deb rpm; do \
	  ARCH=$${p#*/} VERSION=$(VERSION) FILES=$(RELEASE) $(BIN)/nfpm package -f deploy/packages/nfpm.yaml -p $$kind -t $(RELEASE); \
	done; done
	rm -rf $(RELEASE)/man $(RELEASE)/completion

.PHONY: packages-test
packages-test: rpm ## installs, starts, upgrades and removes each package in a copy of this system; builds them and the image again elsewhere and compares; needs root and Debian
	$(MAKE) --no-print-directory release-files RELEASE=dist/packages-test $(HERE)
	deploy/packages/test.sh dist/packages-test
	deploy/packages/again.sh dist/packages-test release-files $(HERE)

# What installs RPM packages.
.PHONY: rpm
rpm:
	$(call needs,rpm,rpm)

.PHONY: clean
clean: ## removes what was built here
	rm -rf bin dist

.PHONY: help
help: ## this list
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@/ { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z0-9-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
