#!/usr/bin/env bash
# Runs the unit of packaging/systemd under a real systemd: start and readiness, status, reload, apply, a kill, a hang that the watchdog
# ends, stop, detach. Systemd is the first process of namespaces of its own, over a copy-on-write view of this machine's files;
# nothing of it is left behind.
#
#   scripts/systemd.sh [PROGRAM]     the program is target/debug/guideway unless another is named
#
# Needs root, systemd (252 or later) and overlayfs.
set -euo pipefail
cd "$(dirname "$0")/.."
program=$(realpath "${1:-target/debug/guideway}")
unit=$(realpath packaging/systemd/guideway.service)

fail() { echo "systemd: $*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || fail "must run as root"
[ -x "$program" ] || fail "there is no $program; build it first: cargo build"
[ -x /lib/systemd/systemd ] || fail "systemd is not installed"

work=$(mktemp -d)
first="" launcher=""
inside() { nsenter -t "$first" -a -- "$@"; }
tidy() {
    status=$?
    if [ -n "$first" ]; then
        [ $status = 0 ] || inside journalctl --no-pager -n 40 -u guideway >&2 || :
    fi
    # Its child dies with it, and the namespaces with that.
    [ -z "$launcher" ] || { kill -KILL "$launcher" && wait "$launcher"; } 2>/dev/null || :
    rm -rf "$work"
}
trap tidy EXIT

cat >"$work/boot" <<'BOOT'
#!/usr/bin/env bash
set -euo pipefail
mount --make-rprivate /
mkdir "$work/layers"
mount -t tmpfs tmpfs "$work/layers"
mkdir "$work"/layers/{upper,work,root}
root=$work/layers/root
mount -t overlay overlay -o "lowerdir=/,upperdir=$work/layers/upper,workdir=$work/layers/work" "$root"
cd "$root"
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs var/lib
mount -t cgroup2 cgroup2 sys/fs/cgroup
# In a container systemd leaves this to whoever made the container.
mount -t bpf bpf sys/fs/bpf
mount -t tmpfs tmpfs dev
for device in null zero full random urandom tty; do
    touch "dev/$device"
    mount --bind "/dev/$device" "dev/$device"
done
mkdir dev/pts dev/shm
mount -t devpts devpts dev/pts -o newinstance,ptmxmode=0666
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd

install -D "$program" usr/bin/guideway
install -D -m 644 "$unit" etc/systemd/system/guideway.service
mkdir -p etc/guideway
echo 'GUIDEWAY_OPTIONS="--interface lb0"' >etc/guideway/environment
cat >etc/guideway/guideway.toml <<'CONFIG'
[underlay]
source_v4 = "10.9.0.1"

[[service]]
name = "web"
vip = "192.0.2.10"
port = 80
protocol = "tcp"
backend = [
  { name = "be1", address = "10.9.0.2" },
  { name = "be2", address = "10.9.0.3" },
]
CONFIG
sed 's/10\.9\.0\.3/10.9.0.4/' etc/guideway/guideway.toml >etc/guideway/next.toml

ip link set lo up
ip link add lb0 type veth peer name wire0
ip address add 10.9.0.1/24 dev lb0
ip link set lb0 up
ip link set wire0 up

mkdir -p .before
pivot_root . .before
umount -l /.before
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    /lib/systemd/systemd --system --unit=basic.target --log-target=null --show-status=no
BOOT

export work program unit
unshare --fork --kill-child=KILL --pid --mount --net --uts --ipc --cgroup bash "$work/boot" &
launcher=$!

# Waits, at most so many half seconds, until a command succeeds.
until_true() {
    local tries=$1
    shift
    for _ in $(seq "$tries"); do
        "$@" >/dev/null 2>&1 && return
        sleep 0.5
    done
    fail "waited in vain: $*"
}
is_up() {
    first=$(pgrep -P "$launcher") && [ "$(cat "/proc/$first/comm")" = systemd ] && inside systemctl is-active basic.target
}
until_true 60 is_up

show() { inside systemctl show guideway --property "$1" --value; }
is_restarted() { [ "$(show NRestarts)" -ge "$1" ] && [ "$(show ActiveState)" = active ]; }
step() { echo "systemd: $*"; }

inside systemctl start guideway
step "ready: $(show StatusText)"
inside guideway status >/dev/null || [ $? = 1 ]
inside systemctl reload guideway
until_true 20 bash -c "nsenter -t $first -a -- guideway events | grep -q 'SIGHUP'"
step "reloaded"
inside guideway apply /etc/guideway/next.toml >/dev/null
inside grep -q 10.9.0.4 /etc/guideway/guideway.toml || fail "apply did not write the configuration"
step "a configuration applied"

inside systemctl kill --signal KILL guideway
until_true 30 is_restarted 1
step "started again after a kill"
inside kill -STOP "$(show MainPID)"
until_true 60 is_restarted 2
step "started again by the watchdog after a hang"
inside guideway explain 198.51.100.7:5555 192.0.2.10:80 tcp | grep -q "leads to slot" || fail "no answer after restarts"

inside systemctl stop guideway
inside ip link show lb0 | grep -q xdp || fail "a stop took the program away"
inside guideway detach >/dev/null
if inside ip link show lb0 | grep -q xdp; then fail "detach left the program"; fi
step "stopped, and detached"
step "passed"
