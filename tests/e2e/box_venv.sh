#!/bin/sh
# In place of config/venv.sh on the box, which has no network to install from.
set -eu
if [ -f "$VENV/stamp" ]; then exit 0; fi
version=$(cat /opt/python-version)
mkdir -p "$VENV/bin" "$VENV/lib/$version"
ln -s "/opt/python/bin/$version" "$VENV/bin/python"
ln -s /opt/packages "$VENV/lib/$version/site-packages"
echo 'home = /opt/python/bin' > "$VENV/pyvenv.cfg"
date > "$VENV/stamp"
