#!/bin/sh
# Makes the virtual environment $1 with Stoker and its tools at the pinned versions. Where root and apt
# are at hand it also installs the two Debian packages that make the CPU build fast: OpenBLAS (matrix
# products) and g++ (MLX compiles fused expressions at run time). Without them everything still runs.
set -eu
venv=$1
python=${PYTHON:-python3}

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
	echo "Stoker needs Python 3.11 or later; PYTHON=/path/to/python3.11 make setup chooses one" >&2
	exit 1
}
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --upgrade pip
"$venv/bin/python" -m pip install --constraint constraints.txt --editable '.[dev]' --progress-bar on

if [ "$(uname -s)" = Linux ] && ! ldconfig -p 2>/dev/null | grep -q libopenblas.so.0; then
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
		{ apt-get update -qq && apt-get install -y -qq --no-install-recommends libopenblas0-pthread g++; } ||
			echo "OpenBLAS could not be installed; Stoker runs without it, slower" >&2
	else
		echo "for speed on the CPU: install libopenblas0-pthread and g++ (as root: apt-get install libopenblas0-pthread g++)" >&2
	fi
fi
touch "$venv/ready"
