#!/bin/sh
# Runs the tests of the kernel programs on Debian's 6.1 kernel, in an emulated machine without network.
#
# Needs Debian with: apt-get install qemu-system-x86 cpio busybox-static ethtool
# The kernel comes by `apt-get download`; it is not installed. Takes about four minutes: every instruction is emulated,
# so that it runs inside virtual machines, too, whose own virtualisation is often incomplete.
set -eu

cd "$(dirname "$0")/.."
work=${TMPDIR:-/tmp}/guideway-second-kernel
mkdir -p "$work/root/bin" "$work/root/tests" "$work/root/proc" "$work/root/sys" "$work/root/dev" "$work/root/tmp"

package=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: //p')
if [ ! -e "$work/$package" ]; then
    (cd "$work" && apt-get download "$package" && dpkg-deb -x "$package"_*.deb "$work/$package")
fi
kernel=$(echo "$work/$package"/boot/vmlinuz-*)
modules=$(echo "$work/$package"/lib/modules/*)

# The tests, with the libraries that they load. Links are tested as far as this kernel has them.
rm -f "$work/root/tests"/*
cargo test --package guideway-xdp --tests --no-run --message-format=json |
    sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | while read -r test; do
    case $(basename "$test") in
        kernel-*|publish-*|attach-*|end_cases-*|end_live-*|peer-*) cp "$test" "$work/root/tests/" ;;
    esac
done
ethtool=$(command -v ethtool || echo /usr/sbin/ethtool)
for test in "$work/root/tests"/* "$ethtool"; do
    ldd "$test" | sed -n 's/[^/]*\(\/[^ ]*\).*/\1/p'
done | sort -u | while read -r library; do
    mkdir -p "$work/root$(dirname "$library")"
    cp -L "$library" "$work/root$library"
done
cp /bin/busybox "$work/root/bin/busybox"
cp "$ethtool" "$work/root/bin/ethtool"
# In the order in which they need each other.
wanted="veth llc stp bridge sch_ingress cls_bpf"
echo "$wanted" > "$work/root/modules"
for module in $wanted; do
    find "$modules" -name "$module.ko" -exec cp {} "$work/root/" \;
done

cat > "$work/root/init" <<'INIT'
#!/bin/busybox sh
export PATH=/bin GUIDEWAY_REQUIRE_PRIVILEGES=1 RUST_BACKTRACE=0
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mount -t bpf bpf /sys/fs/bpf
echo 1 > /proc/sys/net/core/bpf_jit_enable
for module in $(cat /modules); do
    [ -e "/$module.ko" ] && insmod "/$module.ko"
done
ip link set dev lo up
echo "kernel: $(uname -r)"
result=passed
for test in /tests/*; do
    echo "test file: $test"
    # One thread: what is emulated has one processor.
    "$test" --test-threads=1 --nocapture || result=FAILED
done
echo "second kernel: $result"
poweroff -f
INIT
chmod +x "$work/root/init"
(cd "$work/root" && find . | cpio --quiet -o -H newc | gzip -1) > "$work/initrd"

qemu-system-x86_64 -machine q35,accel=tcg -cpu max -m 1024 -nographic -no-reboot \
    -kernel "$kernel" -initrd "$work/initrd" -append 'console=ttyS0 panic=-1 quiet' | tee "$work/log"
grep -q 'second kernel: passed' "$work/log"
