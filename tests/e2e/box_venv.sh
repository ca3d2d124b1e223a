#!/bin/sh
# In place of config/venv.sh on the box, which has no network to install from.
set -eu
if [ -f "$VENV/stamp" ]; then exit 0; fi
version=$(cat /opt/python-version)
packages=$VENV/lib/$version/site-packages
mkdir -p "$VENV/bin" "$packages"
ln -s "/opt/python/bin/$version" "$VENV/bin/python"
printf '%s\n' /opt/packages "$(pwd -P)" > "$packages/box.pth"
echo 'home = /opt/python/bin' > "$VENV/pyvenv.cfg"
date > "$VENV/stamp"
