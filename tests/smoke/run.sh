#!/bin/sh
# Every smoke script against one gateway: BASE_URL=… KEY=… MODEL=… sh tests/smoke/run.sh, or `make -s smoke`.
here=$(dirname "$0")
failed=''

for name in health models chat tools blocks responses cors key; do
    sh "$here/$name.sh" || failed="$failed $name"
done

if [ -n "$failed" ]; then
    echo "FAILED:$failed"
    exit 1
fi
echo 'all is well'
