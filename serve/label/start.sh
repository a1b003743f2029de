#!/usr/bin/env bash
# Serve a trained bundle to 3D Slicer and other clients of MONAI Label, on this machine alone. See docs/how-to/serve.md.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

usage() {
    cat <<TEXT
Usage: bash serve/label/start.sh --bundle bundles/acdc --studies DIR [--port 8000] [--workspace DIR] [--fresh]
                                 [--no-training]
       bash serve/label/start.sh --approve [--workspace DIR]

  --bundle       folder of a bundle with a trained models/model.pt
  --studies      folder of NIfTI images, one file per image; labels are stored in its folder "labels"
  --port         port on 127.0.0.1 (default: 8000)
  --workspace    folder of the served copy, of logs and temporary files (default: serve/.label)
  --fresh        serve the bundle's model again, instead of the copy that was trained on this server
  --no-training  segment and store labels, but do not train
  --next         next.csv of \`dcl-monai next\`: adds the strategy "next", which follows this ranking
  --approve      serve the last trained model, although it was worse on some labels

The environment is made at the first start, in \$DCL_LABEL_ENV (default: serve/.venv-label), by serve/label/install.sh.
TEXT
}

fail() {
    echo "error: $1" >&2
    exit 1
}

bundle='' studies='' port=8000 workspace=$here/../.label approve=no options=()
while (($#)); do
    case $1 in
        --next)
            (($# > 1)) || fail "$1 needs a value. Try --help."
            options+=("$1" "$(realpath "$2")")
            shift 2
            ;;
        --bundle | --studies | --port | --workspace)
            (($# > 1)) || fail "$1 needs a value. Try --help."
            printf -v "${1#--}" '%s' "$2"
            shift 2
            ;;
        --fresh | --no-training)
            options+=("$1")
            shift
            ;;
        --approve)
            approve=yes
            shift
            ;;
        -h | --help)
            usage
            exit
            ;;
        *) fail "$1: unknown option. Try --help." ;;
    esac
done
[[ $approve == yes || (-n $bundle && -n $studies) ]] || fail "--bundle and --studies are needed. Try --help."
[[ $port =~ ^[0-9]+$ ]] || fail "--port $port: is no number."

environment=${DCL_LABEL_ENV:-$here/../.venv-label}
bash "$here/install.sh"
python=$environment/bin/python

# What the server imports and loads is up to its environment, not to the shell it is started from.
unset PYTHONHOME TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD
for name in $(compgen -e MONAI_); do unset "$name"; done
export PYTHONPATH=$here PYTHONNOUSERSITE=1 TORCH_FORCE_WEIGHTS_ONLY_LOAD=1

[[ $approve == no ]] || exec "$python" "$here/approve.py" --workspace "$workspace"

# Only what is needed: no sessions, batches or scores, no downloads, images and labels of three formats.
export MONAI_LABEL_SESSIONS=false MONAI_LABEL_TASKS_BATCH_INFER=false MONAI_LABEL_TASKS_SCORING=false
export MONAI_LABEL_TRACKING_ENABLED=false MONAI_LABEL_DATASTORE_FILE_EXT='["*.nii.gz", "*.nii", "*.nrrd"]'
mkdir -p "$workspace/tmp"
TMPDIR=$(cd "$workspace/tmp" && pwd)
export TMPDIR
exec "$python" "$here/server.py" --bundle "$bundle" --studies "$studies" --workspace "$workspace" --port "$port" \
    ${options[@]+"${options[@]}"}
