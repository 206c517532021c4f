# make app                                  the dashboard, on http://127.0.0.1:8501
# make app PYTHON=/opt/conda/bin/python     the same with that Python, and with its torch if it has one
# make test                                 what every change must pass
#
# Everything is installed into .venv, once, and again only when a requirements file changes.

PYTHON = python3
VENV = .venv
IN_VENV = $(VENV)/bin/python
PIP_INSTALL = $(IN_VENV) -m pip install --disable-pip-version-check -c $(VENV)/constraints.txt

.PHONY: app test test-long lint benchmarks clean FORCE

app: $(VENV)/installed
	$(IN_VENV) -m streamlit run app.py

# Most tests wait for a process half of their time, so two run side by side, with measuring processes
# of one thread each; a browser wants quiet.
test: lint
	$(IN_VENV) -m tests.browser.chromium
	OMP_NUM_THREADS=1 $(IN_VENV) -m pytest -m "not long and not browser" -n 2 --dist loadfile
	$(IN_VENV) -m pytest -m "not long and browser"

test-long: $(VENV)/installed-dev
	$(IN_VENV) -m pytest -m long

lint: $(VENV)/installed-dev
	$(IN_VENV) -m ruff check .
	$(IN_VENV) -m mypy

benchmarks: $(VENV)/installed-dev
	$(IN_VENV) -m pytest tests/benchmarks -s

# data/ is left alone: results live there.
clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis test-results tests/browser/artifacts
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/installed: requirements.txt $(VENV)/made-from
	$(PIP_INSTALL) -r requirements.txt || { \
	  if [ -s $(VENV)/constraints.txt ]; then echo "The torch that $$(cat $(VENV)/made-from) has is left as it is." \
	    "If it is too old, name a Python without torch: the newest is then installed into $(VENV)."; fi; exit 1; }
	@touch $@

$(VENV)/installed-dev: requirements-dev.txt $(VENV)/installed
	$(PIP_INSTALL) -r requirements-dev.txt
	@touch $@

# Made when there is none, or when another PYTHON is named than the one it was made from.
#
# A Python that has torch keeps it, and stays as it was. Its packages are laid *under* ours: a .pth
# file adds its site folders behind .venv's own, so pip sees that torch is there and installs only
# what is missing or too old, into .venv. (`venv --system-site-packages` would not do: made from a
# virtual environment's Python, it shows the packages of the base interpreter instead. Installing
# into the named environment would change it.) The constraints make pip say so when that torch is
# too old, instead of putting another one over it, and choose the torchvision that fits it.
$(VENV)/made-from: FORCE
	@if [ -x $(IN_VENV) ] && [ -f $@ ] && \
	  { [ "$(origin PYTHON)" = file ] || [ "$$(cat $@)" = "$(PYTHON)" ]; }; then exit 0; fi; \
	set -e; \
	command -v "$(PYTHON)" >/dev/null || { \
	  echo "There is no $(PYTHON): name a Python 3.11 or newer, as in make app PYTHON=python3.12"; exit 1; }; \
	"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Python 3.11 or newer is needed and $(PYTHON) is older: make app PYTHON=python3.12"; exit 1; }; \
	"$(PYTHON)" -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo "$(PYTHON) cannot make a virtual environment. On Debian and Ubuntu: apt-get install python3-venv"; exit 1; }; \
	rm -rf $(VENV); \
	"$(PYTHON)" -m venv $(VENV); \
	if "$(PYTHON)" -c 'import importlib.util as u, sys; sys.exit(not u.find_spec("torch"))'; then \
	  echo "$(PYTHON) has torch: it is used from there, and only what is missing is installed."; \
	  site=$$($(IN_VENV) -c 'import sysconfig; print(sysconfig.get_path("purelib"))'); \
	  "$(PYTHON)" -c 'import sys; [print(f"import site; site.addsitedir({p!r})") for p in sys.path if p.endswith("-packages")]' \
	    > "$$site/under.pth"; \
	fi; \
	$(IN_VENV) -c 'from importlib.metadata import distributions as d; [print(f"{p.name}=={p.version}") for p in d() if p.name in ("torch", "torchvision")]' \
	  > $(VENV)/constraints.txt; \
	echo "$(PYTHON)" > $@
