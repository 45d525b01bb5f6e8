#!/usr/bin/env bash
# The first process of the test node, in mount, pid, net, uts and ipc namespaces of its own (see node.py). It prepares files and network and then
# only reaps. The machine's /etc, /var/lib and /opt are lower layers: what the node writes goes to FOLDER. /run is empty, /tmp is the machine's.
set -eu
folder=$1
mount --make-rprivate /
for place in etc opt var/lib; do
  layer=$folder/layers/${place//\//-}
  mkdir -p "$layer/upper" "$layer/work"
  mount -t overlay node -o "lowerdir=/$place,upperdir=$layer/upper,workdir=$layer/work" "/$place"
done
mount -t tmpfs -o mode=755 node /run
# The snapshots of containerd are overlays, and an overlay cannot lie on another.
for place in containerd kubelet etcd; do
  mkdir -p "/var/lib/$place" "$folder/$place"
  mount --bind "$folder/$place" "/var/lib/$place"
done
mount -t tmpfs -o mode=755 node /var/log
mkdir -p /etc/cdi /etc/cni/net.d /opt/cni/bin /var/log/pods /run/containerd
mount --make-rshared /
# The kubelet sets these for the whole machine and fails if it may not. It finds files with its values here, so the machine keeps its own.
sysctl() {
  printf '%s\n' "$2" >"/run/sysctl-${1//\//-}"
  mount --bind "/run/sysctl-${1//\//-}" "/proc/sys/$1"
}
sysctl vm/overcommit_memory 1
sysctl vm/panic_on_oom 0
sysctl kernel/panic 10
sysctl kernel/panic_on_oops 1
sysctl kernel/keys/root_maxkeys 1000000
sysctl kernel/keys/root_maxbytes 25000000
hostname node1
ip link set lo up
ip link add br0 type bridge
ip addr add 10.77.0.1/24 dev br0
ip addr add 10.96.0.1/32 dev br0 # the Service "kubernetes"; there is no kube-proxy
ip link add br0-port type veth peer name br0-peer
ip link set br0-port master br0 up
ip link set br0-peer up
ip link set br0 up
ip route add default via 10.77.0.1 dev br0
for name in pod-network loopback; do
  cp "$folder/pod_network.sh" "/opt/cni/bin/$name"
  chmod +x "/opt/cni/bin/$name"
done
echo '{"cniVersion":"1.0.0","name":"pods","plugins":[{"type":"pod-network"}]}' >/etc/cni/net.d/10-pods.conflist
touch "$folder/prepared"
trap 'exit 0' TERM INT
while :; do
  sleep 3600 &
  wait $!
done
