# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# The two commands of a newcomer are `make demo` and `make check`. Each installs the packages that
# it lacks (tools/deps.sh; WEFT_NO_APT=1 only names them). Everything else is meson's.
BUILD ?= build
PREFIX ?= /usr/local
DESTDIR ?=
PYTHON := /usr/bin/python3
DEPS := tools/deps.sh
INSTALLED = $(PYTHON) tools/installed.py --prefix "$(or $(PREFIX),/usr/local)" --destdir "$(DESTDIR)"
# A tree that was copied or moved with its build folder in it would build the other one.
OURS = $(PYTHON) tools/ours.py "$(BUILD)"
RUN = $(OURS) && $(PYTHON) tests/run.py --build "$(BUILD)"

all: ## build: leaves a runnable build/weft
	@$(DEPS) build
	@$(OURS)
	@test -f "$(BUILD)/build.ninja" || meson setup "$(BUILD)"
	@ninja -C "$(BUILD)"

demo: ## Debian's perftest between two processes over Weft, beside this machine's limits
	@$(DEPS) build demo
	@$(MAKE) --no-print-directory all
	@"$(BUILD)/weft" bench --only limits --rounds 3

demo-torus: ## lattice QCD and a graph on tori of 8 and 16 nodes, each run beside its run in one process
	@$(DEPS) build demo-torus
	@$(MAKE) --no-print-directory all
	@examples/torus/demo.py --weft "$(BUILD)/weft" --programs "$(BUILD)/examples/torus"

check: ## every test; ends with `N passed, N failed, N skipped`; PART=house|wire|torus|gpu|stream|hosts: those of one part
	@$(DEPS) build test check
	@$(RUN) $(if $(PART),--part $(PART)) all

check-quick: ## build, lint, unit and quick tests: under a minute, no root
	@$(DEPS) build test
	@$(RUN) quick

bench: ## `weft bench`: the measured bounds, and Weft beside other transports
	@$(DEPS) build demo bench
	@$(MAKE) --no-print-directory all
	@"$(BUILD)/weft" bench --json "$(BUILD)/bench.json" --svg "$(BUILD)/bench.svg"; bench=$$?; \
		"$(BUILD)/weft" bench --events --json "$(BUILD)/events.json" || bench=1; \
		"$(BUILD)/weft" bench --wire --json "$(BUILD)/wire.json" || bench=1; \
		WEFT_BUILD="$$(realpath "$(BUILD)")" $(PYTHON) bench/connections.py && exit $$bench

slow: ## the tests too long for check
	@$(DEPS) build test check
	@$(RUN) slow

model: all ## ten million random sequences of verbs against the model: SECONDS= bounds it
	@"$(BUILD)/tests/model/test-model" --sequences $(or $(SEQUENCES),10000000) \
		--seconds $(or $(SECONDS),0) --jobs $$(nproc)

rxe: all ## asks Linux's Soft-RoCE in a virtual machine again for what the tests compare with
	@$(DEPS) lab
	@lab/rxe sh -c '$(PYTHON) tests/suite/play.py --dev rxe0 2>/dev/null' >"$(BUILD)/rxe.tsv"
	@mv "$(BUILD)/rxe.tsv" tests/suite/rxe.tsv
	@for run in 'connected 2 600' 'connected 3 1000' 'unreliable 1 500' 'datagram 1 600' \
			'shared 1 600' 'extended 1 500' 'window 1 500'; do \
		lab/rxe sh -c 'echo "# Linux $$(uname -r)"; "$$@"' sh \
			"$(BUILD)/tests/differential/differential" $$run 50 \
			>"$(BUILD)/rxe.txt" && set -- $$run && \
		xz -9c "$(BUILD)/rxe.txt" >tests/differential/rxe-$$1-$$2.xz || exit 1; \
	done

lab-pcie: all ## programs between two virtual machines that share the window of a PCIe device
	@$(DEPS) test
	@WEFT_BUILD="$(BUILD)" lab/machines show

lab-cxl: all ## the same between two that share a CXL memory
	@$(DEPS) test
	@WEFT_BUILD="$(BUILD)" lab/machines show --backing cxl

lab-facts: all ## what docs/decisions/0067 has numbers of, measured again between such machines: BACKING=pcie or cxl
	@$(DEPS) test
	@WEFT_BUILD="$(BUILD)" lab/machines facts --backing $(or $(BACKING),pcie)

lab-shell: all ## the same, which run what is typed: BACKING=pcie or cxl, GUESTS=2 to 4
	@$(DEPS) test
	@WEFT_BUILD="$(BUILD)" lab/machines shell --backing $(or $(BACKING),pcie) --guests $(or $(GUESTS),2)

asan: ## the unit tests under the address and undefined-behaviour sanitizers
	@$(DEPS) build test
	@$(RUN) asan

tsan: ## the unit tests under the thread sanitizer
	@$(DEPS) build test
	@$(RUN) tsan

coverage: ## line coverage of nic, pool, link, the card and the engine of RoCE v2 by the tests
	@$(DEPS) build test coverage
	@$(RUN) coverage

gates: ## the tests between hosts in a build that ends where an exchange needs atomic instructions of their memory
	@$(DEPS) build test
	@$(RUN) gates

tidy: ## clang-tidy over our files
	@$(DEPS) build test tidy
	@$(RUN) tidy

install: all ## PREFIX= (/usr/local) DESTDIR=
	@meson configure "$(BUILD)" --prefix "$(or $(PREFIX),/usr/local)"
	@ninja -C "$(BUILD)"
	@$(INSTALLED) install --build "$(BUILD)"

uninstall: ## removes what install has put into the same PREFIX= and DESTDIR=
	@$(INSTALLED) uninstall

deb: ## a Debian package, that stands beside rdma-core's: build-deb/weft_*.deb
	@$(DEPS) build deb
	@tools/deb.sh "$(BUILD)-deb"

dist-bin: ## a tarball for any Linux with glibc 2.31 or later, ARCH= (x86_64) or aarch64: build-dist/
	@$(DEPS) build dist $(if $(filter aarch64,$(ARCH)),arm64)
	@$(OURS)
	@tools/dist.sh "$(BUILD)-dist" $(or $(ARCH),x86_64)

check-dist: dist-bin deb ## both in fresh Debian 12 and 13, which it downloads; as root
	@$(DEPS) test check-dist
	@WEFT_BUILD="$$(realpath "$(BUILD)")" $(PYTHON) -m pytest -p no:cacheprovider -ra tests/packaging/

check-arm64: ## builds for arm64 and runs by qemu-user the unit tests that need one process only
	@$(DEPS) build dist arm64
	@$(OURS)
	@tools/cross.sh "$(BUILD)-arm64" aarch64 bookworm
	@meson test -C "$(BUILD)-arm64" --no-rebuild --print-errorlogs --timeout-multiplier 5 \
		--num-processes 1 abi-query cm-mad cm-conn cm-lossy cm-agent cm-port verbs-objects \
		verbs-qp verbs-modify verbs-post verbs-fail verbs-cq_ex verbs-qp_ex verbs-rereg

check-gpu: ## the tests and bounds of memory of GPUs on a machine with one, with the build that is there; docs/gpu.md
	@tools/gpus.py --build "$(BUILD)" --gpus 1

check-gpu2: ## the same on a machine with two, and NCCL between them
	@tools/gpus.py --build "$(BUILD)" --gpus 2

check-stream-gpu: ## the tests and bounds of streams into memory of a GPU on a machine with one, with the build that is there; docs/stream.md
	@tools/stream_gpus.py --build "$(BUILD)"

clean: ## removes the build folders
	@rm -rf "$(BUILD)" "$(BUILD)-asan" "$(BUILD)-tsan" "$(BUILD)-gates" "$(BUILD)-cov" "$(BUILD)-deb" "$(BUILD)-dist" "$(BUILD)-arm64"

help: ## this list
	@sed -n 's/^\([a-z0-9-]*\):[^#]*## /\1\t/p' Makefile | expand -t 14

.PHONY: all demo demo-torus bench check check-quick slow model rxe lab-pcie lab-cxl lab-facts lab-shell asan tsan coverage gates tidy install uninstall deb \
	dist-bin check-dist check-arm64 check-gpu check-gpu2 check-stream-gpu clean help
