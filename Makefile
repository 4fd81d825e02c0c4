# make deploy   sets everything up, raises the virtual rack (Kubernetes, KAI, Slurm), deploys and verifies it: 5 min; the first time 15
# make test     all tests but those below; make check: the fast ones
# make tools    the packages that development needs in addition: tests, lint, docs; every target below installs them
# make fresh    deploy on a machine made for it, and a site of one's own (30 min)
# make cluster  clusters killed, used, drained, restored, upgraded, mended (about two hours on 2 busy cores, by its modules' own minutes in docs/reality.md; never in one run)
# make machines bare virtual machines get their system by Redfish, and two are deployed (emulated: long; names what to install)
# make remedies plants every fault of tests/integration/test_night.py, test_faults.py and test_cluster_smoke.py, types the remedy that is
#               printed, and requires PASSED
# make docs     the pages of docs/ as a site, in .cache/docs/index.html
# make published  writes all that is generated: schemas, manual pages, boards and rules, which make setup writes, too, and
#                 what is committed: tables of docs, defaults and READMEs of roles
# make wheel    the program as a control machine installs it, in dist/: wheel, lock, and the wheel of the virtual rack
# make release  the same with bill of materials, release notes and SHA256SUMS
# make deb      the Debian package of a control machine, for the Debian release it is built on, in dist/
# make locks    writes the three locks from pyproject.toml; PACKAGES="rich click" raises these
# make golden   writes the records that tests compare, the public interface among them: read what changed
# make audit    outside judges of a rack: ssh-audit, lynis, ClusterMAX; looks at strict and updated racks (20 min)
# make collection builds the Ansible collection appliance.host (modules, roles, inventory plugin) in .cache/
# make driver   builds Debian's own NVIDIA driver for real, in a folder (10 min)
SHELL := /bin/bash -o pipefail
# What Python and Ansible compile is kept, whatever the shell says: each start would compile it anew.
unexport PYTHONDONTWRITEBYTECODE
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)
PYTHON ?= python3
BIN := .venv/bin
RACK := systemd-container mmdebstrap nftables iproute2 openssh-client gcc libc6-dev ibsim-utils gpg gpg-agent \
  zstd fdisk xorriso mtools dosfstools cpio
APT := $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=120
# Three racks keep two cores busy: Ansible also waits.
PROCESSES ?= 3
PYTEST := $(BIN)/python -m pytest -p no:cacheprovider

.PHONY: deb setup .venv/ready tools deploy down docs published wheel release locks golden check lint lint-python lint-ansible unit molecule molecule-vm test tests audit cluster machines fresh remedies driver bench collection clean

# What a control machine needs. Packages that tests and lint need are not installed on it. Debian's packages are installed
# while pip downloads its own.
setup:
	@$(MAKE) --no-print-directory -j2 .venv/ready

.venv/ready: .venv/installed .venv/packages .venv/published
	@:

tools: setup .venv/tools

# $(call installed,PACKAGES): Debian's, where one is missing.
installed = dpkg-query -W $(1) >/dev/null 2>&1 || { echo "Installing Debian packages: $(1)"; \
	  $(APT) update && $(APT) install -y --no-install-recommends $(1) >/dev/null; }

.venv/python:
	@mkdir -p .venv
	@$(call installed,python3-venv)
	@touch $@

.venv/packages: Makefile | .venv/python
	@$(call installed,$(RACK))
	@touch $@

.venv/installed: requirements.lock requirements-build.lock pyproject.toml | .venv/python
	@echo "Installing the locked Python packages"
	@test -x $(BIN)/pip || $(PYTHON) -m venv .venv
	@$(BIN)/pip install -q --no-compile --disable-pip-version-check --require-hashes -r requirements.lock -r requirements-build.lock
	@$(BIN)/pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@# On all processors; an editable install compiles nothing, and who starts the program may have no right to write beside it.
	@$(BIN)/python -m compileall -q -j 0 "$(CURDIR)/.venv/lib" appliance >/dev/null 2>&1 || true
	@$(BIN)/python -c "from appliance.report.html import read_templates; read_templates()"
	@touch $@ .venv/published

# What roles need and no repository has. The install writes it, too; this follows the sources.
.venv/published: $(shell find appliance boards tools -name '*.py' -o -name '*.yml') | .venv/installed
	@$(BIN)/python -m tools.published built
	@touch $@

.venv/tools: requirements-dev.lock .venv/installed
	@echo "Installing the locked Python packages of development"
	@# pip checks the hash of every requirement it meets, so the first files are named again.
	@$(BIN)/pip install -q --disable-pip-version-check --require-hashes -r requirements.lock -r requirements-build.lock -r requirements-dev.lock
	@touch $@

deploy: setup
	$(SUDO) $(BIN)/appliance deploy --profile hpc --yes

down:
	$(SUDO) $(BIN)/appliance lab down

lint: tools
	@$(MAKE) --no-print-directory -j2 lint-ansible lint-python

lint-python:
	$(BIN)/ruff format --check -q .
	$(BIN)/ruff check -q .
	$(BIN)/mypy --no-error-summary
	$(BIN)/lint-imports --no-logo 2>&1 | tail -n 3
	$(BIN)/yamllint -s .

lint-ansible:
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/ansible-lint --offline -q

# tests/contract/test_site_of_docs.py builds it, too, so that lint need not.
docs: tools
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "$(CURDIR)/.cache/docs/index.html"

published: tools
	$(BIN)/python -m tools.published

wheel: setup
	@$(BIN)/python -m tools.release wheels

release: tools
	@$(BIN)/python -m tools.release all

# With the packages of requirements.lock, whose hashes are enforced.
deb: tools
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m tools.debian dist

PACKAGES ?=
locks: tools
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m tools.locks $(PACKAGES)

golden: tools
	$(BIN)/python -m tests.golden
	$(BIN)/python -m tests.interface
	$(BIN)/python -m tests.redfish_server

unit: tools
	$(PYTEST) -q -n 2

check: lint unit

molecule: tools
	$(SUDO) env PATH="$(CURDIR)/$(BIN):$$PATH" $(PYTEST) -n $(PROCESSES) -m molecule

# Roles whose promises need a kernel of their own, on emulated machines.
molecule-vm: tools
	$(SUDO) env PATH="$(CURDIR)/$(BIN):$$PATH" $(PYTEST) -q -s -m machines tests/integration/test_molecule_machine.py

# Lint is done beside: the first racks wait for their image.
test: tools
	@$(MAKE) --no-print-directory -j3 tests lint-ansible lint-python

tests:
	$(SUDO) env PATH="$(CURDIR)/$(BIN):$$PATH" $(PYTEST) -n $(PROCESSES) --durations=40 --durations-min=20 -m "not fresh and not build and not cluster and not machines and not audit and not remedies"

audit: tools
	$(SUDO) env PATH="$(CURDIR)/$(BIN):$$PATH" $(PYTEST) -q -s -m audit

cluster: tools
	$(SUDO) env PATH="$(CURDIR)/$(BIN):$$PATH" $(PYTEST) -q -m cluster

machines: tools
	$(SUDO) env PATH="$(CURDIR)/$(BIN):$$PATH" $(PYTEST) -q --durations=0 --durations-min=1 -m machines

# Plants each fault, types the remedy that is printed, and requires PASSED.
remedies: tools
	$(SUDO) env PATH="$(CURDIR)/$(BIN):$$PATH" $(PYTEST) -q -m rack tests/integration/test_night.py tests/integration/test_faults.py tests/integration/test_cluster_smoke.py tests/integration/test_changed_as_documented.py tests/integration/test_rehearsal.py

fresh: tools
	$(SUDO) env PATH="$(CURDIR)/$(BIN):$$PATH" $(PYTEST) -q -m fresh

driver: tools
	$(SUDO) env PATH="$(CURDIR)/$(BIN):$$PATH" $(PYTEST) -q -s -m build

bench: tools
	$(SUDO) $(BIN)/python -m benchmarks

# The modules, roles and inventory plugin as an archive for ansible-galaxy collection install.
collection: setup
	$(BIN)/python -m tools.collection .cache

clean:
	rm -rf .venv .mypy_cache .ruff_cache .import_linter_cache .ansible .cache/docs
