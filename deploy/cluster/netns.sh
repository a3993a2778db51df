#!/bin/sh
# A cluster on one machine, each broker in a network namespace of its own, so
# that its network can be cut. It takes root, iproute2 and an assay in PATH (or
# in $ASSAY).
#
#   netns.sh up DIR        lay DIR out unless it is, start brokers and services
#   netns.sh cut NODE      cut a broker off from everybody: n1, n2 or n3
#   netns.sh split NODE    cut it off from the other brokers alone
#   netns.sh heal NODE     plug it in again
#   netns.sh down DIR      stop everything that up started
set -eu

assay=${ASSAY:-assay}
net=10.177.0
nodes="n1 n2 n3"
bridge=assaybr

usage() { sed -n '2,11s/^# \{0,1\}//p' "$0" >&2; exit 2; }

host() { echo "$net.${1#n}"; }

known() {
	case " $nodes " in *" $1 "*) ;; *) usage ;; esac
}

# start NAME COMMAND...: in the background, its pid in DIR/run/netns
start() {
	name=$1
	shift
	"$@" >"$dir/run/netns/$name.log" 2>&1 &
	echo $! >"$dir/run/netns/$name.pid"
}

up() {
	if ip link show "$bridge" >/dev/null 2>&1; then
		echo "$0: $bridge is there already: down first" >&2
		exit 1
	fi
	[ -e "$dir/cluster.json" ] ||
		"$assay" --dir "$dir" init --peer "n1=$(host n1)" --peer "n2=$(host n2)" --peer "n3=$(host n3)" >/dev/null
	mkdir -p "$dir/run/netns"
	ip link add "$bridge" type bridge
	ip addr add "$net.254/24" dev "$bridge"
	ip link set "$bridge" up
	for n in $nodes; do
		ip netns add "assay-$n"
		ip link add "assay-$n" type veth peer name eth0 netns "assay-$n"
		ip link set "assay-$n" master "$bridge" up
		ip -n "assay-$n" addr add "$(host "$n")/24" dev eth0
		ip -n "assay-$n" link set eth0 up
		ip -n "assay-$n" link set lo up
		start "$n" ip netns exec "assay-$n" "$assay" --dir "$dir" serve broker --node "$n"
	done
	"$assay" --dir "$dir" init
	start logger-a "$assay" --dir "$dir" serve logger --standby --instance a
	start logger-b "$assay" --dir "$dir" serve logger --standby --instance b
	start projector "$assay" --dir "$dir" serve projector
	start ingress "$assay" --dir "$dir" serve ingress
	start resolver "$assay" --dir "$dir" serve resolver
	echo "Running; assay --dir $dir status shows how. Logs and pids are in $dir/run/netns."
}

down() {
	for name in resolver ingress projector logger-a logger-b $nodes; do
		pidfile="$dir/run/netns/$name.pid"
		[ -e "$pidfile" ] || continue
		pid=$(cat "$pidfile")
		kill "$pid" 2>/dev/null || true
		tries=0
		while kill -0 "$pid" 2>/dev/null && [ "$tries" -lt 100 ]; do
			sleep 0.2
			tries=$((tries + 1))
		done
		rm "$pidfile"
	done
	for n in $nodes; do
		ip netns del "assay-$n" 2>/dev/null || true
	done
	ip link del "$bridge" 2>/dev/null || true
}

[ $# -eq 2 ] || usage
case $1 in
up | down)
	dir=$(realpath -m "$2")
	"$1"
	;;
cut)
	known "$2"
	ip link set "assay-$2" down
	;;
split)
	known "$2"
	for n in $nodes; do
		[ "$n" = "$2" ] || ip -n "assay-$2" route replace blackhole "$(host "$n")/32"
	done
	;;
heal)
	known "$2"
	ip link set "assay-$2" up
	for n in $nodes; do
		[ "$n" = "$2" ] || ip -n "assay-$2" route del blackhole "$(host "$n")/32" 2>/dev/null || true
	done
	;;
*) usage ;;
esac
