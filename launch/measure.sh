#!/usr/bin/env bash
# Measures all that needs a GPU, on a machine that is lent for half an hour and has no network: docs/gpu.md.
#
#   launch/wheels.sh               before, where there is a network: fills .wheels/
#   launch/measure.sh              there: runs what has no result yet; ends within ten minutes
#   launch/measure.sh              again, with measured/ as it came back, until it says that all is done
#   launch/measure.sh --tiny       here: the whole way with tiny models on a CPU, to be checked and not to be timed
#
# tried: --tiny on a CPU, from wheels; on an H100, steps by name.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
home=${MEASURE_HOME:-${TMPDIR:-/tmp}/patchgen-measure}
mkdir -p "$home"

# Into a folder of its own: what the machine has is left as it is.
if compgen -G '.wheels/*.whl' >/dev/null && [ ! -e "$home/site/.installed" ]; then
    "$python" -m pip install --quiet --no-index --no-deps --no-compile --no-cache-dir --disable-pip-version-check \
        --upgrade --target "$home/site" .wheels/*.whl
    touch "$home/site/.installed"
fi
export PYTHONPATH="$home/site:$PWD${PYTHONPATH:+:$PYTHONPATH}"
exec "$python" launch/measure.py --home "$home" "$@"
