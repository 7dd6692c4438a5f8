#!/bin/sh
# Installs the project in the test VM's tree: install.sh SOURCE DIRECTORY
#
# SOURCE is the project's files, DIRECTORY the virtual environment to make of them
# with the tree's own interpreter.  It is named after its sources' digest: if it is
# complete, there is nothing to do.  The newest few are kept.
set -eu

source=$1
place=$2
[ ! -e "$place/complete" ] || exit 0

rm -rf "$place"
mkdir -p "$(dirname "$place")"
python3 -m venv --system-site-packages --without-pip "$place"
PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PIP_NO_CACHE_DIR=1 \
    python3 -m pip --python "$place/bin/python" install --quiet \
    --no-index --no-build-isolation --no-deps "$source"
"$place/bin/ociruntime" --version >/dev/null
: >"$place/complete"
for old in $(find "$(dirname "$place")" -mindepth 1 -maxdepth 1 -printf '%T@ %p\n' |
    sort -rn | tail -n +4 | cut -d ' ' -f 2); do
    rm -rf "$old"
done
