#!/usr/bin/env bash
# Segment NIfTI files and DICOM series with a bundle, by MONAI Deploy in an environment of its own (docs/how-to/deploy.md).
#
#   bash serve/deploy/run.sh --bundle bundles/acdc --input IN --output OUT
#   bash serve/deploy/run.sh --install         # only make the environment, which the first run does otherwise
#   bash serve/deploy/run.sh --install --cpu   # with torch for machines without a GPU
#
# The environment is serve/.venv-deploy, or the folder that DCL_DEPLOY_ENV names; PYTHON names another interpreter.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
environment=${DCL_DEPLOY_ENV:-$(dirname "$here")/.venv-deploy}

usage() {
    cat <<TEXT
Usage: bash serve/deploy/run.sh --bundle DIR --input DIR --output DIR [--codes FILE] [--sha256 HASH]
                                [--exclude PATTERN ...]
       bash serve/deploy/run.sh --install [--cpu]

  --bundle   folder of the bundle, with configs/ and models/model.ts
  --input    folder of NIfTI files and DICOM series
  --output   folder of the results
  --codes    JSON file with codes of further structures, for DICOM SEG
  --sha256   hash that models/model.ts must have
  --exclude  patterns of file names that are no images (default: labels and earlier outputs)
  --install  only make the environment (2 GB), which the first run does otherwise
  --cpu      with torch for machines without a GPU

The environment is made in \$DCL_DEPLOY_ENV (default: serve/.venv-deploy) by \$PYTHON (default: python3.11 or python3).
TEXT
}

for argument; do
    case $argument in
        -h | --help) usage && exit ;;
    esac
done

hash_of() { sha256sum <"$here/$1" | cut -d " " -f 1; }

locks=(lock.txt lock-cpu.txt)
if [[ "${1:-}" == "--install" ]]; then
    if [[ "${2:-}" == "--cpu" ]]; then locks=(lock-cpu.txt); else locks=(lock.txt); fi
fi
installed=$(cat "$environment/installed.lock" 2>/dev/null || true)
ready=no
for lock in "${locks[@]}"; do [[ "$installed" != "$(hash_of "$lock")" ]] || ready=yes; done

if [[ $ready == no ]]; then
    echo "making the environment $environment (2 GB, once)" >&2
    "${PYTHON:-$(command -v python3.11 || command -v python3)}" -m venv "$environment"
    "$environment/bin/python" -m pip install --quiet --disable-pip-version-check \
        --require-hashes --only-binary :all: -r "$here/${locks[0]}"
    hash_of "${locks[0]}" >"$environment/installed.lock" # last: an installation that was stopped is done again
fi
if [[ "${1:-}" == "--install" ]]; then
    echo "$environment is ready" >&2
    exit 0
fi

ulimit -s 32768 2>/dev/null || true # Holoscan asks for it
unset PYTHONPATH PYTHONHOME
exec "$environment/bin/python" -s -W ignore "$here/app" "$@"
