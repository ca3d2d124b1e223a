# Codex Gateway. `make run` serves it, `make test` proves it; both make what they need.
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python

.PHONY: help run login doctor key trace smoke test ci lint types layers format goldens pictures bench soak fuzz dist install-service clean venv venv-dev

help:
	@echo "make run    serve on http://127.0.0.1:11435 (with a demo model; no account needed)"
	@echo "make login  log the gateway in to Codex"
	@echo "make doctor look whether it can do its work here; URL=https://... looks from outside too"
	@echo "make key    NAME=...: make an access key; ROLE=admin, RPM=60, STREAMS=4, FILE=..."
	@echo "make trace  ID=...: what a log (LOG=file, or standard input) tells of one request"
	@echo "make smoke  BASE_URL=... KEY=...: try a running gateway with curl"
	@echo "make test   every test, with coverage; TESTS=... some of them"
	@echo "make ci     lint, types, layers, then make test"
	@echo "make bench  what the gateway costs, beside its floor"
	@echo "make soak   mixed traffic while processes are killed; MINUTES=2 of it, and a minute of rest"
	@echo "make fuzz   odd events, requests and bytes by chance; MINUTES=2 of it, SEED=... again from there"
	@echo "make goldens  write tests/fixtures/golden anew, for a change of the wire that is meant"
	@echo "make pictures  take docs/images anew, with a real browser"
	@echo "make dist   build the wheel and the source archive into dist/"
	@echo "make install-service  what a Debian box lacks to serve it; APPLY=1 does it, DOMAIN=... adds nginx"
	@echo "make lint | types | layers | format | clean"

run: venv
	@PROXY_DEMO=$${PROXY_DEMO:-true} PROXY_WARM_PROCESSES=$${PROXY_WARM_PROCESSES:-1} exec $(PY) -m app serve

login: venv
	@exec $(PY) -m app login

doctor: venv
	@PROXY_DEMO=$${PROXY_DEMO:-true} exec $(PY) -m app doctor $(if $(URL),--url '$(URL)')

key: venv
	@exec $(PY) -m app key '$(NAME)' $(if $(ROLE),--role '$(ROLE)') $(if $(FILE),--file '$(FILE)') \
		$(if $(RPM),--requests-per-minute '$(RPM)') $(if $(STREAMS),--max-streams '$(STREAMS)')

trace: venv
	@exec $(PY) -m app trace '$(ID)' $(LOG)

smoke:
	@sh tests/smoke/run.sh

test: venv-dev
	@rm -f .coverage .coverage.*
	$(PY) -m coverage run -m pytest -n 2 --dist loadfile $(TESTS) $(AGAIN)
	@$(PY) -m coverage combine -q
	@$(PY) -m coverage report --include='app/lib/*' $(if $(TESTS),,--fail-under=100)
	@$(PY) -m coverage report --omit='app/lib/*' $(if $(TESTS),,--fail-under=90)

# The machines of CI are shared. A test that failed there is tried once more, by itself, and both runs stay in the log:
# what fails twice is broken.
ci: AGAIN = || $(PY) -m coverage run -m pytest --last-failed --last-failed-no-failures none $(TESTS)
ci: venv-dev lint types layers test

lint: venv-dev
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

types: venv-dev
	$(PY) -m mypy

layers: venv-dev
	$(VENV)/bin/lint-imports

format: venv-dev
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

goldens: venv-dev
	$(PY) -m tests.golden

pictures: venv-dev
	PICTURES=docs/images $(PY) -m pytest tests/e2e/test_page_pictures.py

bench: venv-dev
	$(PY) -m tests.bench

MINUTES ?= 2
soak: venv-dev
	$(PY) -m tests.soak --minutes $(MINUTES)

fuzz: venv-dev
	FUZZ_MINUTES=$(MINUTES) FUZZ_SEED=$(SEED) $(PY) -m pytest tests/fuzz

dist: venv-dev
	rm -rf build dist *.egg-info/SOURCES.txt
	$(PY) -m build --no-isolation

install-service:
	@APPLY='$(APPLY)' DOMAIN='$(DOMAIN)' DESTDIR='$(DESTDIR)' PYTHON='$(PYTHON)' sh config/install-service.sh

clean:
	rm -rf $(VENV) build dist *.egg-info .coverage* .mypy_cache .pytest_cache .ruff_cache .hypothesis

# The environment is as good as the stamp in it: written last, and gone stale when the folder was moved,
# the interpreter changed or setup.cfg did.
venv:
	@PYTHON='$(PYTHON)' VENV='$(VENV)' EXTRA='' sh config/venv.sh

venv-dev:
	@PYTHON='$(PYTHON)' VENV='$(VENV)' EXTRA='[dev]' sh config/venv.sh
