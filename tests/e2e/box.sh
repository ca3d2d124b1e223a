#!/bin/sh
# Becomes a small Debian box: this machine's files with everything written kept in memory, no network but loopback,
# and systemd as process 1. For a process that is alone in its namespaces.
#   box.sh FOLDER CHECKOUT PYTHON_PREFIX SITE_PACKAGES
set -eu
folder=$1 checkout=$2 prefix=$3 packages=$4

mount -t tmpfs tmpfs "$folder"
root=$folder/root
mkdir "$folder/upper" "$folder/work" "$root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$folder/upper,workdir=$folder/work" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"
chmod 1777 "$root/tmp"

# Of all its services only what logs and what commands talk through: nothing here sets this machine's clock or kernel.
units=$root/etc/systemd/system
rm -rf "$root"/etc/systemd/system/* "$root"/usr/lib/systemd/system/*.wants
mkdir "$units/sysinit.target.wants" "$units/sockets.target.wants"
ln -s /usr/lib/systemd/system/systemd-journald.service "$units/sysinit.target.wants/"
ln -s /usr/lib/systemd/system/systemd-journald.socket /usr/lib/systemd/system/dbus.socket "$units/sockets.target.wants/"
echo 0123456789abcdef0123456789abcdef > "$root/etc/machine-id"
rm -rf "$root/var/log/journal" "$root/etc/codex-gateway" "$root/opt/codex-gateway"

# What the network would bring: the checkout, with an environment that is this test's own.
place=$root/srv/checkout
mkdir -p "$place"
for each in app config docs wsgi.py Makefile setup.cfg pyproject.toml README.md; do
    cp -R "$checkout/$each" "$place/"
done
find "$place" -name __pycache__ -prune -exec rm -rf {} +
cp "$checkout/tests/e2e/box_venv.sh" "$place/config/venv.sh"
mkdir -p "$root/opt/python" "$root/opt/packages"
mount --bind "$prefix" "$root/opt/python"
mount --bind "$packages" "$root/opt/packages"
basename "$(dirname "$packages")" > "$root/opt/python-version"
echo /opt/python/lib > "$root/etc/ld.so.conf.d/00-python.conf"
chroot "$root" ldconfig
for each in apt-get git certbot; do
    install -m 0755 "$checkout/tests/e2e/box_network.sh" "$root/usr/local/sbin/$each"
done
printf '127.0.0.1 localhost gateway.example.org\n' > "$root/etc/hosts"

ip link set lo up
cd "$root"
mkdir old
pivot_root . old
umount -l /old
exec env -i container=box PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    /lib/systemd/systemd --system --unit=basic.target --show-status=no
