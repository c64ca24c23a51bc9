#!/usr/bin/env bash
# Usage: scripts/dev/lock.sh PYTHON OUTPUT
# Writes the pinned requirements of the continuous integration: what pip resolves today, in an empty environment.
set -euo pipefail
python=$1 output=$2
environment=$(mktemp -d)
trap 'rm -rf "$environment"' EXIT
"$python" -m venv "$environment"
HERD_PUREPYTHON=1 "$environment/bin/pip" install --quiet --disable-pip-version-check '.[dev,plot,dask,safetensors,onnx,sound]' 'scikit-learn>=1.4' 'onnxruntime>=1.18'
{
    echo "# Pinned requirements of .ci/run, for Python 3.11 to 3.13: herdcli[dev,plot,dask,safetensors,onnx,sound] with scikit-learn and onnxruntime."
    echo "# Written by \`make lock\`; do not edit by hand."
    "$environment/bin/pip" freeze --all --exclude herdcli --exclude pip
} > "$output"
