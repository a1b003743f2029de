#!/usr/bin/env bash
# Segment NIfTI files and DICOM series with a bundle, by MONAI Deploy in an environment of its own (docs/how-to/deploy.md).
#
#   bash serve/deploy/run.sh --bundle bundles/acdc --input IN --output OUT
#   bash serve/deploy/run.sh --install     # only make the environment, which the first run does otherwise
#
# The environment is serve/.venv-deploy, or the folder that DCL_DEPLOY_ENV names; PYTHON names another interpreter.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
environment=${DCL_DEPLOY_ENV:-$(dirname "$here")/.venv-deploy}
wanted=$(cat "$here/requirements.txt" "$here/constraints.txt" | sha256sum | cut -d " " -f 1)

if [[ "$(cat "$environment/installed" 2>/dev/null)" != "$wanted" ]]; then
    echo "making the environment $environment (2 GB, once)" >&2
    "${PYTHON:-python3}" -m venv "$environment"
    "$environment/bin/python" -m pip install --quiet --disable-pip-version-check \
        -r "$here/requirements.txt" -c "$here/constraints.txt"
    echo "$wanted" >"$environment/installed" # last: an installation that was stopped is done again
fi
if [[ "${1:-}" == "--install" ]]; then
    echo "$environment is ready" >&2
    exit 0
fi

ulimit -s 32768 2>/dev/null || true # Holoscan asks for it
unset PYTHONPATH PYTHONHOME
exec "$environment/bin/python" -s -W ignore "$here/app" "$@"
