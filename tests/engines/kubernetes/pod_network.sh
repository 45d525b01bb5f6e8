#!/bin/sh
# The CNI plugin of the test node: joins a pod to the bridge br0 by a veth pair. The kubelet calls it for each pod, as CNI says.
set -u
cat >/dev/null
host=berth$(printf %.9s "${CNI_CONTAINERID:-none}")
addresses=${POD_NETWORK:-/run/pod-network}
fail() {
  echo '{"cniVersion":"1.0.0","code":100,"msg":"'"$1"'"}'
  exit 1
}
case $CNI_COMMAND in
  VERSION) echo '{"cniVersion":"1.0.0","supportedVersions":["0.4.0","1.0.0"]}' ;;
  DEL)
    ip link del "$host" 2>/dev/null
    # The folder of an address holds the name of its pod's link.
    for taken in "$addresses"/*/"$host"; do rmdir "$taken" "${taken%/*}" 2>/dev/null; done
    ;;
  ADD)
    # containerd also calls a plugin for the loopback device.
    if [ "${0##*/}" = loopback ]; then
      nsenter --net="$CNI_NETNS" ip link set lo up >&2 || fail "no loopback"
      echo '{"cniVersion":"1.0.0","interfaces":[{"name":"lo"}],"ips":[{"address":"127.0.0.1/8","interface":0}]}'
      exit 0
    fi
    mkdir -p "$addresses" || fail "no folder for addresses"
    last=2
    until mkdir "$addresses/$last" 2>/dev/null; do
      last=$((last + 1))
      [ "$last" -le 254 ] || fail "no address is free in $addresses"
    done
    mkdir "$addresses/$last/$host" || fail "no folder for addresses"
    address=10.77.0.$last
    ip link add "$host" type veth peer name "$CNI_IFNAME" netns "$CNI_NETNS" >&2 || fail "no veth"
    ip link set "$host" master br0 up >&2 || fail "no bridge"
    inside="nsenter --net=$CNI_NETNS ip"
    { $inside addr add "$address/24" dev "$CNI_IFNAME" && $inside link set "$CNI_IFNAME" up &&
      $inside route add default via 10.77.0.1; } >&2 || fail "no address"
    printf '{"cniVersion":"1.0.0","interfaces":[{"name":"%s","sandbox":"%s"}],"ips":[{"address":"%s/24","gateway":"10.77.0.1","interface":0}]}\n' \
      "$CNI_IFNAME" "$CNI_NETNS" "$address"
    ;;
esac
exit 0
