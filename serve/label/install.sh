#!/usr/bin/env bash
# Make the environment of the MONAI Label server: pinned versions, apart from every other environment (it needs NumPy 1
# and pydicom 2). Does nothing if it is ready. Nothing is installed or downloaded when the server runs.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
environment=${DCL_LABEL_ENV:-$root/serve/.venv-label}
torchvision='torchvision==0.28.0'
while (($#)); do
    case $1 in
        # what pip is to install as torchvision; the tests name a stand-in, where no build fits the CPU build of torch
        --torchvision)
            torchvision=${2:?--torchvision needs a value}
            shift 2
            ;;
        *)
            echo "Usage: bash serve/label/install.sh [--torchvision REQUIREMENT]; the environment: \$DCL_LABEL_ENV" >&2
            exit 1
            ;;
    esac
done
unset PYTHONPATH PYTHONHOME

ready=$environment/dcl-label-ready
pins=$(cat "$here/requirements.txt")
if [[ ! -f $ready || $(cat "$ready") != "$pins" ]]; then
    python=${PYTHON:-$(command -v python3.11 || command -v python3.12 || command -v python3 || true)}
    [[ -n $python ]] && "$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 13))' || {
        echo "error: MONAI Label needs Python 3.11 or 3.12: install one, or name it by PYTHON=/path/to/python3.11." >&2
        exit 1
    }
    echo "making the environment $environment (some minutes, at the first start only)"
    "$python" -m venv --clear "$environment"
    # MONAI Label without packages that this server does not use (8 GB with them): its own list is left aside
    "$environment/bin/python" -m pip install --quiet torch==2.13.0 numpy==1.26.4 "$torchvision"
    "$environment/bin/python" -m pip install --quiet --no-deps -r "$here/requirements.txt"
    "$environment/bin/python" -c 'import monailabel.app' >/dev/null || {
        echo "error: MONAI Label cannot be imported, see above. Without a GPU, take torch and torchvision from PyTorch's" \
            "own index: PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu bash serve/label/install.sh" >&2
        exit 1
    }
    printf '%s\n' "$pins" >"$ready"
fi
# This checkout, not a copy of it: what is served is what is here.
installed=$("$environment/bin/python" -I -c 'import pathlib, dcl_monai; print(pathlib.Path(dcl_monai.__file__).parents[1])' 2>/dev/null || true)
[[ $installed == "$root" ]] || "$environment/bin/python" -m pip install --quiet --no-deps -e "$root"
