#!/usr/bin/env bash
# Fills .wheels/ with what launch/measure.sh installs on a machine without network.  Run it where there is one.
# tried: on Linux with pip 25.
#
#   launch/wheels.sh
set -euo pipefail
cd "$(dirname "$0")/.."

most=$((64 * 1000 * 1000)) # bytes that travel: the tracked files and the wheels
python=${PYTHON:-python3}
mkdir -p .wheels
rm -f .wheels/*.whl # two releases of one package would stop the installation
"$python" -m pip download --quiet --no-deps --only-binary=:all: --python-version 3.12 --implementation cp \
    --platform manylinux_2_28_x86_64 --platform manylinux2014_x86_64 --dest .wheels --requirement launch/wheels.txt

size=$({ git ls-files -z && printf '%s\0' .wheels/*.whl; } | xargs -0 cat -- 2>/dev/null | wc -c)
ls -l .wheels
echo "$size bytes with the tracked files, of $most"
[ "$size" -le "$most" ] || { echo "too much to travel: leave out a wheel in launch/wheels.txt" >&2; exit 1; }
