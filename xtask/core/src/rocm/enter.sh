# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Runs a command in the root of Debian's packages: enter.sh ROOT FOLDER COMMAND...
# It has to be in a mount namespace of its own. All folders of the machine but those of its system are there, too, at
# their own paths. /sys and /dev hold what ROCm's programs look at, so that they find the driver of AMD's GPUs loaded.
set -e
root=$1 folder=$2
shift 2
for top in /*; do
    case ${top#/} in bin | sbin | lib* | usr | etc | var | sys | dev) continue ;; esac
    if [ -d "$top" ] && [ ! -L "$top" ]; then
        mkdir -p "$root$top"
        mount --rbind "$top" "$root$top"
    fi
done
for node in null zero full random urandom tty; do
    [ -e "$root/dev/$node" ] || : >"$root/dev/$node"
    mount --bind "/dev/$node" "$root/dev/$node"
done
mkdir -p "$root/dev/shm"
mount --rbind /dev/shm "$root/dev/shm"
exec chroot "$root" /bin/sh -c 'cd "$1" && shift && exec "$@"' sh "$folder" "$@"
